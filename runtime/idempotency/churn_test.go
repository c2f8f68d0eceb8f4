package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// Clients of two processes come, wait and go as they like, with two payloads for a
// key, while handlers answer, release the key and fail. Whoever is answered 201 gets
// the one answer that is stored, and in the end nobody waits.
//
// Covers CON-06.
func TestWaitersComeAndGo(t *testing.T) {
	t.Parallel()
	const clients, requests, keys = 60, 8, 12
	store := memstore.New()
	serve := func() *server {
		return serveOn(t, store, waitingOperation, func(ctx context.Context, call *idempotency.Call) (idempotency.Visit, error) {
			<-time.After(rand.N(60 * time.Millisecond))
			switch rand.N(4) {
			case 0:
				return answers(http.StatusServiceUnavailable, "busy")(ctx, call)
			case 1:
				return nil, errors.New("failed")
			}
			return answers(http.StatusCreated, fmt.Sprint("run ", rand.Uint64()))(ctx, call)
		})
	}
	servers := []*server{serve(), serve()}
	var mu sync.Mutex
	answered := map[string]string{} // by key
	check := func(key string, r reply) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.status == http.StatusServiceUnavailable, r.status == http.StatusTeapot, r.status == http.StatusUnprocessableEntity:
		case r.status != http.StatusCreated:
			t.Errorf("%s: %+v", key, r)
		case answered[key] == "":
			answered[key] = r.body
		case answered[key] != r.body:
			t.Errorf("%s: answered %q and %q", key, answered[key], r.body)
		}
	}
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for range requests {
				key, body := fmt.Sprint("key-", rand.N(keys)), `{}`
				if rand.N(5) == 0 {
					body = `{"other": 1}`
				}
				ctx, cancel := context.Background(), context.CancelFunc(func() {})
				if rand.N(2) == 0 {
					ctx, cancel = context.WithTimeout(ctx, rand.N(80*time.Millisecond))
				}
				if r, ok := servers[i%2].sendFor(ctx, t, body, key); ok {
					check(key, r)
				}
				cancel()
			}
		})
	}
	all.Wait()
	for i := range keys {
		key := fmt.Sprint("key-", i)
		for answered[key] == "" { // with which of the payloads it is stored is not known
			for _, body := range []string{`{}`, `{"other": 1}`} {
				check(key, servers[0].send(t, body, "Idempotency-Key", key))
			}
		}
		same := 0
		for _, body := range []string{`{}`, `{"other": 1}`} {
			r := servers[1].send(t, body, "Idempotency-Key", key)
			if r.status == http.StatusCreated && r.body == answered[key] && r.header.Get("Idempotent-Replayed") == "true" {
				same++
			} else if r.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %+v", key, r)
			}
		}
		if same != 1 {
			t.Errorf("%s is replayed to %d of two payloads", key, same)
		}
	}
}

// sendFor sends a request until ctx ends, which is told by false.
func (s *server) sendFor(ctx context.Context, t *testing.T, body, key string) (reply, bool) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/pay", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return reply{}, false
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "X-Api-Key": {"alice"}, "Idempotency-Key": {key}}
	resp, err := s.Client().Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return reply{}, false
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	return reply{resp.StatusCode, resp.Header, string(b)}, err == nil
}
