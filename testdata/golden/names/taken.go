package api

// Hand-written code of the package has names that idemgen would choose.

type idempotentServer struct{}

var idempotentAnswer = "taken"

// Packages of these names are imported only where bodies are streams.
var cmp, mime, multipart string

// A package that every client imports.
func retry() string { return cmp + mime + multipart }

var _, _, _ = idempotentServer{}, idempotentAnswer, retry
