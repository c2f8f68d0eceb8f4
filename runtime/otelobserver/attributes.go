package otelobserver

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"

	"go.opentelemetry.io/otel/attribute"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// The attributes.
const (
	keyOperation = attribute.Key("idempotency.operation")
	keyOutcome   = attribute.Key("idempotency.outcome")
	keyRecord    = attribute.Key("idempotency.record")
	keyClaim     = attribute.Key("idempotency.claim.duration")
	keyComplete  = attribute.Key("idempotency.complete.duration")
	keyRuns      = attribute.Key("idempotency.runs")

	keyNumber   = attribute.Key("idempotency.attempt.number")
	keySent     = attribute.Key("idempotency.attempt.sent")
	keyReplayed = attribute.Key("idempotency.attempt.replayed")
	keyDuration = attribute.Key("idempotency.attempt.duration")
	keyPause    = attribute.Key("idempotency.attempt.pause")
	keyFinal    = attribute.Key("idempotency.attempt.final")

	// Semantic Conventions 1.23.0, attributes of errors and of HTTP.
	keyErrorType   = attribute.Key("error.type")
	keyStatus      = attribute.Key("http.response.status_code")
	keyResendCount = attribute.Key("http.request.resend_count")
)

// otherError is the conventions' error.type for what has no name of its own.
const otherError = "_OTHER"

// eventErrorType returns the error.type of a request, "" where it has none.
func eventErrorType(e idempotency.Event) string {
	if e.Err == nil {
		return ""
	}
	// A refusal is reported as it is. One that lies deeper, in a handler's
	// error, is that of another call.
	if refusal, ok := e.Err.(*idempotency.Error); ok && isKnown(refusal.Code) { //nolint:errorlint // as said
		return string(refusal.Code)
	}
	return otherError
}

// attemptErrorType returns the error.type of an attempt, "" where it has none.
// ctx is the call's: if it has ended for a cause of its own, the error is that
// cause.
func attemptErrorType(ctx context.Context, a retry.Attempt) string {
	var (
		certificate *tls.CertificateVerificationError
		network     net.Error
	)
	switch {
	case a.Err == nil:
		return ""
	case isKnown(a.Code):
		return string(a.Code)
	case a.Status >= 300:
		return strconv.Itoa(a.Status)
	case errors.Is(ctx.Err(), context.Canceled):
		return "canceled"
	case ctx.Err() != nil, errors.Is(a.Err, context.DeadlineExceeded), errors.As(a.Err, &network) && network.Timeout():
		return "timeout"
	case errors.As(a.Err, &certificate):
		return "server_certificate_invalid"
	default:
		return otherError
	}
}

// isKnown reports whether this version of the runtime has the code. A client
// is told codes by a server that may be newer, or not what it should be.
func isKnown(code idempotency.Code) bool {
	switch code {
	case idempotency.CodeKeyMissing, idempotency.CodeKeyInvalid, idempotency.CodeBodyInvalid,
		idempotency.CodeScopeMissing, idempotency.CodeInFlight, idempotency.CodeKeyExpired,
		idempotency.CodeBodyTooLarge, idempotency.CodeMismatch, idempotency.CodeInternal, idempotency.CodeTransactionEnded,
		idempotency.CodeResponseTooLarge, idempotency.CodeUnavailable, idempotency.CodeOutcomeUnknown:
		return true
	}
	return false
}
