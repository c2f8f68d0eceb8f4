package idempotency_test

import (
	"context"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// A handler that calls two other systems gives each call a key of its own, and
// the same one when it runs again.
func ExampleDerive() {
	deliver := func(tenant string) {
		_, _, err := idempotency.Do(context.Background(), memstore.New(), idempotency.Request{
			Identity:    idempotency.Identity{Scope: tenant, Operation: "placeOrder", Key: "1"},
			Fingerprint: idempotency.FingerprintOf([]byte(`{"total":1000}`)),
			Retention:   24 * time.Hour,
		}, func(ctx context.Context, _ struct{}) (bool, error) {
			// charge is an operation of a generated client.
			key, err := idempotency.Derive[chargeOp](ctx, "charge")
			if err != nil {
				return false, err
			}
			fmt.Println("charge", tenant, key)
			// The courier has no generated client, and takes a text.
			courier, err := idempotency.DeriveUUID(ctx, "courier: book a parcel")
			if err != nil {
				return false, err
			}
			fmt.Println("parcel", tenant, courier)
			return true, nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	deliver("anna")
	deliver("anna") // the first answer was lost: memstore.New forgets, as a crash does
	deliver("bert") // sends the key 1 too
	// Output:
	// charge anna 38b19604-aeab-8678-aec0-52779f97f48f
	// parcel anna 9a038272-3ab0-88dd-bc9d-c341059e7ef8
	// charge anna 38b19604-aeab-8678-aec0-52779f97f48f
	// parcel anna 9a038272-3ab0-88dd-bc9d-c341059e7ef8
	// charge bert 0fe9d5c3-0b5a-8ed9-9f4a-e6dec105fcf6
	// parcel bert 0a098b8b-1f0c-8239-8f29-8d198e600aac
}
