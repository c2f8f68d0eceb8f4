package dynamostore

// TableInput is what [CreateTable] creates, for emulators without a time to live.
var TableInput = tableInput

// MaxAnswer is the size of the largest answer, and MaxIdentity that of the
// longest scope, operation and key together.
const (
	MaxAnswer   = maxAnswer
	MaxIdentity = maxIdentity
)
