package nethttp

// Adapt stands by hand beside generated code, and serves nothing.
func Adapt[Tx any](si ServerInterface) IdempotentServer[Tx] { return nil }
