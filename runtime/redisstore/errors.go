package redisstore

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

var (
	errReturned = errors.New("redisstore: work has returned: its commands are no longer taken")
	errGone     = errors.New("redisstore: the answer has expired, was released, or a failover has lost it")
	errExec     = errors.New("redisstore: queued commands are sent by the store, together with the answer: leave Exec, Pipelined and TxPipelined out")
)

func unavailable(detail string, err error) error {
	return &idempotency.Error{Code: idempotency.CodeUnavailable, Detail: detail, Err: err}
}

func notStored(err error) error {
	return unavailable("the answer could not be stored; nothing was kept", err)
}

func outcomeUnknown(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "the answer to the completion was lost, and it is not known whether the effects were kept",
		Err:    err,
	}
}

// unreplicated is answered where an answer is stored and may be lost.
func unreplicated(err error) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "the answer is stored, but it is not known whether enough replicas have it, so that a failover may lose it with its effects",
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

// errDamaged is answered for a record that this store has not written. Neither its client
// nor its operator may take the request for one that was not carried out.
func errDamaged(what string) error {
	return &idempotency.Error{
		Code:   idempotency.CodeOutcomeUnknown,
		Detail: "what is stored of the request is damaged, and it is not known whether it was carried out",
		Err:    fmt.Errorf("redisstore: the stored record is damaged: %s", what),
	}
}

// serverError is the error of a queued command, as [redis.HasErrorPrefix]
// understands it.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

// isReply reports whether err is what a server has answered, and not the lack
// of an answer.
func isReply(err error) bool { return redis.HasErrorPrefix(err, "") }

// mayPass reports whether a completion that failed with err may have been
// carried out, or may be when it is sent again: no answer came, or the server
// is not ready or not the right one.
func mayPass(err error) bool {
	if !isReply(err) {
		return true
	}
	for _, prefix := range []string{
		"MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING", "BUSY", "NOREPLICAS", "max number of clients",
	} {
		if redis.HasErrorPrefix(err, prefix) {
			return true
		}
	}
	return false
}
