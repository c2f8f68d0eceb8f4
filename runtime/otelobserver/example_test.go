package otelobserver_test

import (
	"fmt"

	"go.opentelemetry.io/otel/metric/noop"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/otelobserver"
	"github.com/idemgen/idemgen/runtime/retry"
)

func ExampleServer() {
	provider := noop.NewMeterProvider() // or otel.GetMeterProvider()
	observer, err := otelobserver.Server(provider)
	if err != nil {
		fmt.Println(err)
		return
	}
	option := idempotency.WithObserver(observer)
	_ = option // for the generated NewIdempotentHandler
}

func ExampleClient() {
	provider := noop.NewMeterProvider() // or otel.GetMeterProvider()
	observer, err := otelobserver.Client(provider)
	if err != nil {
		fmt.Println(err)
		return
	}
	option := retry.WithObserver(observer)
	_ = option // for the generated NewIdempotentClient
}
