package retry_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// onceOnly is a server that answers the first request of each connection and
// closes it when the second has come. It returns the keys that it has seen.
func onceOnly(t *testing.T) (address string, keys func() []string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	read := func(r *bufio.Reader) bool {
		req, err := http.ReadRequest(r)
		if err != nil {
			return false
		}
		io.Copy(io.Discard, req.Body)
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, req.Header.Get("Idempotency-Key")+req.Header.Get("X-Order"))
		return true
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				if read(r) {
					io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					read(r)
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	return "http://" + listener.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

// What package net/http does by itself when a connection breaks that it has
// used before, and what is left to the loop. Both make three requests of two
// calls, under one key each.
func TestReusedConnectionBreaks(t *testing.T) {
	t.Parallel()
	t.Run("Idempotency-Key", func(t *testing.T) {
		t.Parallel()
		// net/http knows the field, and sends the request again.
		reused[chargeOp](t, []retry.Attempt{{Number: 1, Sent: 1, Status: 200, Final: true}, {Number: 1, Sent: 2, Status: 200, Final: true}})
	})
	t.Run("another field", func(t *testing.T) {
		t.Parallel()
		// It does not, and the loop makes another attempt.
		reused[orderOp](t, []retry.Attempt{{Number: 1, Sent: 1, Status: 200, Final: true}, {Number: 1, Sent: 1}, {Number: 2, Sent: 1, Status: 200, Final: true}})
	})
}

func reused[Op idempotency.OpType](t *testing.T, want []retry.Attempt) {
	t.Helper()
	address, keys := onceOnly(t)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	var attempts []retry.Attempt
	sender := retry.New(newClock().option(), retry.WithObserver(func(_ context.Context, a retry.Attempt) {
		attempts = append(attempts, retry.Attempt{Number: a.Number, Sent: a.Sent, Status: a.Status, Final: a.Final})
	}))
	first, second := idempotency.NewKey[Op](), idempotency.NewKey[Op]()
	for _, k := range []idempotency.Key[Op]{first, second} {
		got, err := retry.Send(t.Context(), sender, k, idempotency.Seal(k, input{Body: "body"}), exchange(address, &http.Client{Transport: transport}, nil))
		if err != nil || got.Body != "ok" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if want := []string{first.String(), second.String(), second.String()}; !slices.Equal(keys(), want) {
		t.Errorf("the server has seen %q, want %q", keys(), want)
	}
	if !slices.Equal(attempts, want) {
		t.Errorf("attempts %+v, want %+v", attempts, want)
	}
}
