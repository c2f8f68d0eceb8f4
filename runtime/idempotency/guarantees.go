package idempotency

// Guarantees is what a store promises beyond what [Store] says of all of them.
// Each store has a method of this name; the comment there gives the reasons.
type Guarantees struct {
	Atomic   Atomicity
	Fenced   Fencing
	Survives Survival
}

// Atomicity says which effects of a handler are committed together with its
// answer, all or nothing.
type Atomicity string

// The levels of [Atomicity], the strongest last.
const (
	AtomicNothing     Atomicity = "nothing"         // effects stay where no answer is stored
	AtomicQueued      Atomicity = "queued writes"   // those queued on Tx; no read sees them before
	AtomicTransaction Atomicity = "the transaction" // all that is done through Tx
)

// Fencing says what keeps an attempt that has lost its claim from completing.
type Fencing string

// The kinds of [Fencing].
const (
	// FencedByNothing is for claims that last as long as the process and all
	// that it knows.
	FencedByNothing Fencing = "nothing"
	// FencedByTransaction is for claims that end with their transaction; a unique
	// key refuses a second record where two transactions have claimed.
	FencedByTransaction Fencing = "its transaction"
	// FencedByToken is for claims that end by the clock: each has a random token,
	// which its completion compares in the step that stores the answer.
	FencedByToken Fencing = "a token"
)

// Survival says what an answer survives once it is acknowledged, together with
// the effects that are atomic with it.
type Survival string

// The levels of [Survival], the strongest last.
const (
	SurvivesNothing Survival = "nothing" // it is in the memory of the process
	// SurvivesProcess is for answers that the database has, and can forget when
	// it fails over or starts again.
	SurvivesProcess Survival = "its process"
	// SurvivesFailover is for answers that are as safe as any commit of the
	// database: from a crash of it always, and from a failover as far as the
	// database is set up to keep commits.
	SurvivesFailover Survival = "a failover"
)

// DurableStore is a [Store] that promises [SurvivesFailover]. Where a server
// takes one instead of a Store, a store whose answers are less safe than commits
// of a database does not compile: of this module pgxstore, sqlstore and
// dynamostore are one, redisstore and memstore are none. How safe commits are
// is how the database is set up: with asynchronous replication a failover can
// lose the last ones.
type DurableStore[Tx any] interface {
	Store[Tx]
	// SurvivesFailover does nothing. A store has it if and only if its
	// Guarantees say so.
	SurvivesFailover()
}
