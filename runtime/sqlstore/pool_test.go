package sqlstore_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

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
