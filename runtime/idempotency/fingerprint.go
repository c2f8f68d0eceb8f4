package idempotency

// Fingerprint says what a request contains: a version byte, then SHA-256
// over its length-framed parts.
type Fingerprint [33]byte
