package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// A request that gets no connection, since the pool's only one is held by the
// work that waits for it, is told so after its claim timeout.
func TestNoFreeConnection(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := srv.pool(t)
			s := srv.store(t, dsn, 1, sqlstore.WithClaimTimeout(time.Second))
			leased := request("leased")
			leased.Lease = time.Minute
			told := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, idempotency.ErrUnavailable) || !strings.Contains(err.Error(), "SetMaxOpenConns") {
					t.Errorf("%s: %v", what, err)
				}
			}
			_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := s.Execute(ctx, request("inner"), never(t))
					told("Execute", err)
				})
				wg.Go(func() {
					_, err := s.Transact(ctx, never(t))
					told("Transact", err)
				})
				wg.Go(func() {
					_, err := s.AcquireLease(ctx, leased, idempotency.LeaseToken{1})
					told("AcquireLease", err)
				})
				wg.Wait()
				return srv.work("k")(ctx, tx)
			})
			if err != nil {
				t.Errorf("the request that holds it: %v", err)
			}
		})
	}
}

// A pool of one connection is enough, and so is one of two: no request holds one
// while it waits for another.
//
// Covers STO-20.
func TestSmallPools(t *testing.T) {
	t.Parallel()
	for _, s := range servers() {
		for _, conns := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s/%d", s.name, conns), func(t *testing.T) {
				t.Parallel()
				db, dsn := s.pool(t)
				store := s.store(t, dsn, conns)
				var wg sync.WaitGroup
				for i := range 8 {
					wg.Go(func() {
						for n := range 10 {
							key := fmt.Sprintf("%d-%d", i%4, n)
							_, err := store.Execute(t.Context(), request(key), s.work(key))
							for errors.Is(err, idempotency.ErrInFlight) {
								runtime.Gosched()
								_, err = store.Execute(t.Context(), request(key), s.work(key))
							}
							if err != nil {
								t.Errorf("%s: %v", key, err)
							}
						}
					})
				}
				wg.Wait()
				for i := range 4 {
					for n := range 10 {
						if key := fmt.Sprintf("%d-%d", i, n); count(t, db, key) != 1 {
							t.Errorf("%d effects %s", count(t, db, key), key)
						}
					}
				}
			})
		}
	}
}
