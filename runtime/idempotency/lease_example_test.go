package idempotency_test

import (
	"context"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// A consumer that calls another system runs under a lease, and gives that system
// a key which is the same when the message comes again after a crash.
func ExampleLeases() {
	leases := idempotency.Leases(memstore.New(), 10*time.Minute) // in a service: the database
	refund := func(ctx context.Context, _ *idempotency.Lease) (string, error) {
		key, err := idempotency.DeriveUUID(ctx, "provider: refund")
		if err != nil {
			return "", err
		}
		fmt.Println("asking the provider for a refund under", len(key), "characters")
		return "re_1", nil
	}
	for range 2 { // the message comes twice
		id, replayed, err := idempotency.Do(context.Background(), leases, idempotency.Request{
			Identity:    idempotency.Identity{Scope: "acme", Operation: "refund", Key: "message-1"},
			Fingerprint: idempotency.FingerprintOf([]byte("payment 7")),
			Retention:   24 * time.Hour,
			Lease:       30 * time.Second,
		}, refund)
		fmt.Println(id, replayed, err)
	}
	// Output:
	// asking the provider for a refund under 36 characters
	// re_1 false <nil>
	// re_1 true <nil>
}
