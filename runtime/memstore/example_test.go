package memstore_test

import (
	"context"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// A test lets an answer expire by moving the store's clock.
func ExampleWithClock() {
	now := time.Now()
	store := memstore.New(memstore.WithClock(func() time.Time { return now }))
	book := func() {
		booked, replayed, err := idempotency.Do(context.Background(), store, idempotency.Request{
			Identity:    idempotency.Identity{Scope: "payments-queue", Operation: "book", Key: "message-17"},
			Fingerprint: idempotency.FingerprintOf([]byte(`{"amount":1000}`)),
			Retention:   24 * time.Hour,
		}, func(context.Context, struct{}) (string, error) { return "booked", nil })
		fmt.Println(booked, replayed, err)
	}
	book()
	book()
	now = now.Add(25 * time.Hour)
	book()
	// Output:
	// booked false <nil>
	// booked true <nil>
	// booked false <nil>
}
