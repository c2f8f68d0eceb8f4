package otelobserver_test

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/otelobserver"
	"github.com/idemgen/idemgen/runtime/retry"
)

func Example() {
	provider := noop.NewMeterProvider() // a program gives otel.GetMeterProvider(), or its own

	requests, err1 := otelobserver.Server(provider)
	attempts, err2 := otelobserver.Client(provider)
	fmt.Println(errors.Join(err1, err2))

	_ = []idempotency.Option{idempotency.WithObserver(requests)} // for the generated NewIdempotentHandler
	_ = []retry.Option{retry.WithObserver(attempts)}             // for the generated NewIdempotentClient
	_ = idempotency.Observed(memstore.New(), requests)           // for idempotency.Do
	// Output: <nil>
}
