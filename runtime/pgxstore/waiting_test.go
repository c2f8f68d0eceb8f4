package pgxstore_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// asked tells of each attempt at the key slow that has ended.
type asked struct {
	*pgxstore.Store
	slow chan struct{}
}

func (s asked) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[pgx.Tx]) (idempotency.Result, error) {
	res, err := s.Store.Execute(ctx, req, work)
	if req.Key == "slow" {
		s.slow <- struct{}{}
	}
	return res, err
}

// Duplicates that wait hold no connection: while many wait for a request that has
// one of the pool's two, all other requests are served by the second.
//
// Covers CON-06.
func TestWaitersHoldNoConnection(t *testing.T) {
	t.Parallel()
	const waiters = 20
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 2 })
	store := asked{newStore(t, pool), make(chan struct{}, 1000)}
	op := idempotency.Operation{ID: "pay", Method: "POST", Path: "/", Retention: time.Hour, WaitUpTo: time.Minute}
	edge := idempotency.NewEdge(store, idempotency.Unscoped)
	running, finish := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := edge.Handle(w, r, &op, nil, func(w http.ResponseWriter, r *http.Request, tx pgx.Tx, _ *idempotency.Call) error {
			key := r.Header.Get("Idempotency-Key")
			if key == "slow" {
				close(running)
				<-finish
			}
			_, err := pay(key)(r.Context(), tx)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	send := func(key string) (status int, replayed bool) {
		req, err := http.NewRequest("POST", server.URL, nil)
		if err != nil {
			t.Error(err)
			return 0, false
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Error(err)
			return 0, false
		}
		resp.Body.Close()
		return resp.StatusCode, resp.Header.Get("Idempotent-Replayed") != ""
	}
	type reply struct {
		status   int
		replayed bool
	}
	replies := make(chan reply)
	again := func() {
		status, replayed := send("slow")
		replies <- reply{status, replayed}
	}
	go again()
	<-running
	for range waiters {
		go again()
	}
	for range waiters + 3 { // each has asked once, and then one of them at a time
		<-store.slow
	}
	for i := range 20 {
		if status, replayed := send(strconv.Itoa(i)); status != 200 || replayed {
			t.Errorf("another request: status %d, replayed %v", status, replayed)
		}
	}
	for pool.Stat().AcquiredConns() != 1 { // that of the first request alone
		if t.Context().Err() != nil {
			t.Fatal("connections are held by those who wait")
		}
	}
	close(finish)
	executed := 0
	for range waiters + 1 {
		r := <-replies
		if r.status != 200 {
			t.Errorf("status %d", r.status)
		}
		if !r.replayed {
			executed++
		}
	}
	if n := effects(t, pool, "slow"); n != 1 || executed != 1 {
		t.Errorf("%d effects, %d executed", n, executed)
	}
}
