package api

// Hand-written code of the package has names that idemgen would choose.

type idempotentServer struct{}

const idempotentAnswer = "taken"

var _ = idempotentServer{}
