package retry_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// listen gives each connection to serve, and closes it when that returns.
func listen(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
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
				serve(conn)
			})
		}
	})
	t.Cleanup(func() { listener.Close(); wg.Wait() })
	return "http://" + listener.Addr().String()
}

// onceOnly is a server that answers the first request of each connection, 200
// if it has no more answers, and closes it when the second has come. It returns
// the keys that it has seen.
func onceOnly(t *testing.T, answers ...string) (address string, keys func() []string) {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	next := func() string {
		mu.Lock()
		defer mu.Unlock()
		if len(answers) == 0 {
			return "200 OK\r\nContent-Length: 2\r\n\r\nok"
		}
		defer func() { answers = answers[1:] }()
		return answers[0]
	}
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
	address = listen(t, func(conn net.Conn) {
		r := bufio.NewReader(conn)
		if read(r) {
			io.WriteString(conn, "HTTP/1.1 "+next())
			read(r)
		}
	})
	return address, func() []string {
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
	client := newClient(t)
	var attempts []retry.Attempt
	sender := retry.New(newClock().option(), retry.WithObserver(func(_ context.Context, a retry.Attempt) {
		attempts = append(attempts, retry.Attempt{Number: a.Number, Sent: a.Sent, Status: a.Status, Final: a.Final})
	}))
	first, second := idempotency.NewKey[Op](), idempotency.NewKey[Op]()
	for _, k := range []idempotency.Key[Op]{first, second} {
		got, err := retry.Send(t.Context(), sender, k, idempotency.Seal(k, input{Body: "body"}), exchange(address, client, nil))
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

// What net/http sends again may have been executed the first time: a refusal
// says nothing of that, and neither does an answer that frees the key.
func TestRefusedWhenSentAgain(t *testing.T) {
	t.Parallel()
	const problem = `{"type":"` + problems + `mismatch","code":"mismatch"}`
	for name, answer := range map[string]string{
		"refusal":  fmt.Sprintf("422 -\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n%s", len(problem), problem),
		"released": "401 -\r\nContent-Length: 0\r\n\r\n",
	} {
		address, keys := onceOnly(t, "200 OK\r\nContent-Length: 0\r\n\r\n", answer)
		client := newClient(t)
		if err := call(t, address, client); err != nil {
			t.Fatal(err)
		}
		if e := failed(t, call(t, address, client)); !e.OutcomeUnknown || e.Attempts != 1 || len(keys()) != 3 {
			t.Errorf("%s: %d requests, %+v", name, len(keys()), e)
		}
	}
}

// Without a connection nothing was sent; with one, anything can have been.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	instant := newClock().option()
	e := failed(t, call(t, "http://"+listener.Addr().String(), newClient(t), instant))
	if e.OutcomeUnknown || e.Attempts != 4 {
		t.Errorf("no connection: %+v", e)
	}
	address := listen(t, func(conn net.Conn) { bufio.NewReader(conn).ReadByte() })
	if e := failed(t, call(t, address, newClient(t), instant)); !e.OutcomeUnknown || e.Attempts != 4 {
		t.Errorf("a connection that breaks: %+v", e)
	}
}

// A stream without content is sent as a body of no length, and not chunked.
func TestEmptyStream(t *testing.T) {
	t.Parallel()
	requests := make(chan *http.Request, 1)
	address := listen(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		requests <- req
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	k := idempotency.NewKey[chargeOp]()
	in := idempotency.Seal(k, input{Stream: strings.NewReader("")})
	if _, err := retry.Send(t.Context(), retry.New(), k, in, exchange(address, newClient(t), nil)); err != nil {
		t.Fatal(err)
	}
	if req := <-requests; req.ContentLength != 0 || len(req.TransferEncoding) != 0 {
		t.Errorf("length %d, transfer encoding %q", req.ContentLength, req.TransferEncoding)
	}
}

// net/http says once that an attempt took too long, and that it is a timeout.
func TestTimeoutOfNetHTTP(t *testing.T) {
	t.Parallel()
	address := listen(t, func(conn net.Conn) { io.Copy(io.Discard, conn) })
	err := call(t, address, newClient(t), retry.WithAttempts(1), retry.WithAttemptTimeout(10*time.Millisecond))
	var network net.Error
	if !errors.As(err, &network) || !network.Timeout() || !errors.Is(err, context.DeadlineExceeded) || strings.Count(err.Error(), "took longer") != 1 {
		t.Error(err)
	}
}

// A server that switches to another protocol unasked keeps the connection open.
// No more is read of it, since no context would end that.
func TestSwitchedProtocol(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{}, 1)
	address := listen(t, func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
		io.Copy(io.Discard, conn)
		closed <- struct{}{}
	})
	err := call(t, address, newClient(t))
	if e := failed(t, err); e.Attempts != 1 || !strings.Contains(err.Error(), "101 Switching Protocols, which the client has not asked for") {
		t.Error(err)
	}
	<-closed
}

// newClient returns a client whose connections are its own.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// call makes one call of charge under a new key.
func call(t *testing.T, address string, client *http.Client, opts ...retry.Option) error {
	t.Helper()
	k := idempotency.NewKey[chargeOp]()
	_, err := retry.Send(t.Context(), retry.New(opts...), k, idempotency.Seal(k, input{Body: "body"}), exchange(address, client, nil))
	return err
}
