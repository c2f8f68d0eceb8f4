package api

// Hand-written code of the package has names that idemgen would choose.

type idempotentServer struct{}

var idempotentAnswer = "taken"

var _, _ = idempotentServer{}, idempotentAnswer
