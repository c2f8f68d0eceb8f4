package idempotency

var ErrPanicked = errPanicked
