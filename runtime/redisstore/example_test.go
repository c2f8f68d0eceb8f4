package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// A single server. Business keys have any names.
func Example() { //nolint:testableexamples // needs a server
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	store, err := redisstore.New(ctx, client)
	if err != nil {
		log.Fatal(err) // says what to do
	}

	// NewIdempotentHandler takes the store; here a message is handled under its
	// own id.
	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant-7", Operation: "credit", Key: "message-4711"},
		Fingerprint: idempotency.FingerprintOf([]byte("credit 5")),
		Retention:   72 * time.Hour,
	}
	answer, replayed, err := idempotency.Do(ctx, store, req, func(ctx context.Context, tx *redisstore.Tx) (string, error) {
		return "credited", tx.Queue(func(p redis.Pipeliner) error {
			return p.IncrBy(ctx, "balance:tenant-7", 5).Err()
		})
	})
	fmt.Println(answer, replayed, err)
}

// A cluster whose keys carry the tenant as hash tag: the record lies where the
// tenant's data lies, so that both are written in one step.
func Example_cluster() { //nolint:testableexamples // needs a cluster
	ctx := context.Background()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:                      []string{"redis-1:6379", "redis-2:6379", "redis-3:6379"},
		ContextTimeoutEnabled:      true,
		DialerRetries:              1,
		ClusterStateReloadInterval: time.Second,
	})
	store, err := redisstore.New(ctx, client,
		redisstore.WithHashTag(func(id idempotency.Identity) string { return id.Scope }))
	if err != nil {
		log.Fatal(err) // says what to do
	}

	req := idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant-7", Operation: "credit", Key: "message-4711"},
		Fingerprint: idempotency.FingerprintOf([]byte("credit 5")),
		Retention:   72 * time.Hour,
	}
	answer, replayed, err := idempotency.Do(ctx, store, req, func(ctx context.Context, tx *redisstore.Tx) (string, error) {
		return "credited", tx.Queue(func(p redis.Pipeliner) error {
			p.IncrBy(ctx, tx.Key("balance"), 5)
			p.XAdd(ctx, &redis.XAddArgs{Stream: tx.Key("outbox"), Values: []string{"credit", "5"}})
			return nil
		})
	})
	fmt.Println(answer, replayed, err)
}
