package dynamostore

import (
	"errors"
	"fmt"
	"net"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/heartbeat"
)

var (
	errReturned = errors.New("dynamostore: work has returned: its writes are no longer taken")
	errLost     = unavailable("the claim was lost while the handler ran; nothing was kept", heartbeat.ErrLost)
)

// RefusedError says that DynamoDB refused a queued write. Nothing of its run is
// kept and the key is free. It comes in an [*idempotency.CommitError], and wraps
// what the client returned.
type RefusedError struct {
	// Index counts the queued writes from 0.
	Index int
	// Code is DynamoDB's reason: "ConditionalCheckFailed" for a condition that
	// does not hold, "ValidationError", "ItemCollectionSizeLimitExceeded".
	Code string
	// Message is DynamoDB's explanation.
	Message string
	// Item is the item as it was, where the write asked for it by
	// ReturnValuesOnConditionCheckFailure.
	Item map[string]types.AttributeValue
	Err  error
}

func (e *RefusedError) Error() string {
	s := fmt.Sprintf("dynamostore: queued write %d was refused, and nothing is kept: %s", e.Index, e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// Unwrap returns the client's error.
func (e *RefusedError) Unwrap() error { return e.Err }

func unavailable(detail string, err error) error {
	return &idempotency.Error{Code: idempotency.CodeUnavailable, Detail: detail, Err: err}
}

func outcomeUnknown(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "the answer to the completion was lost, and it is not known whether the effects were kept",
		Err:    err,
	}
}

// recordGone is answered where a completion may have been carried out and there
// is no record that tells. Last is what its last try was answered.
func recordGone(last error) error {
	return &idempotency.Error{
		Code: idempotency.CodeOutcomeUnknown,
		Detail: "an answer to the completion was lost, and now the record is gone or another attempt's: it has expired, was released, or the claim was lost before; " +
			"the same request with the same key may be carried out again",
		Err: fmt.Errorf("%w, or its answer was stored and is gone; the last try: %v", idempotency.ErrLeaseLost, last), //nolint:errorlint // it decides nothing
	}
}

func tooLarge(bytes int) error {
	return &idempotency.Error{
		Code:   idempotency.CodeResponseTooLarge,
		Detail: fmt.Sprintf("the answer has %d bytes with its headers, and %d can be stored; nothing was kept", bytes, maxAnswer),
	}
}

// errDamaged is answered for an item that this store has not written. Neither its client
// nor its operator may take the request for one that was not carried out.
func errDamaged(what string) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "what is stored of the request is damaged, and it is not known whether it was carried out",
		Err:    fmt.Errorf("dynamostore: the stored record is damaged: %s", what),
	}
}

// isCode reports whether the service has answered one of these error codes.
func isCode(err error, codes ...string) bool {
	var answered smithy.APIError
	if !errors.As(err, &answered) {
		return false
	}
	for _, code := range codes {
		if answered.ErrorCode() == code {
			return true
		}
	}
	return false
}

// isUnknownOperation reports whether what answered does not know the operation, as
// emulators do.
func isUnknownOperation(err error) bool { return isCode(err, "UnknownOperationException") }

// isConflict reports whether err is the answer to a request that was not carried
// out since another one was under way, or for lack of capacity.
func isConflict(err error) bool {
	return isCode(err, "TransactionConflictException", "ThrottlingException", "ProvisionedThroughputExceededException",
		"RequestLimitExceeded", "ReplicatedWriteConflictException")
}

// isUnsent reports whether no connection could be made for the request.
func isUnsent(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// isRefusal reports whether the service has answered that it does not carry the
// request out.
func isRefusal(err error) bool {
	var answered *smithyhttp.ResponseError
	return errors.As(err, &answered) && answered.HTTPStatusCode() >= 400 && answered.HTTPStatusCode() < 500
}
