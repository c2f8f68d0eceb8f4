package idempotency_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
)

// protocols serves h over HTTP/1.1, and over HTTP/2 with and without TLS.
func protocols(t *testing.T, h http.Handler) map[string]*server {
	t.Helper()
	cleartext := new(http.Protocols)
	cleartext.SetUnencryptedHTTP2(true)
	servers := map[string]*server{}
	for name, start := range map[string]func(*httptest.Server){
		"HTTP/1.1": (*httptest.Server).Start,
		"h2": func(s *httptest.Server) {
			s.EnableHTTP2 = true
			s.StartTLS()
		},
		"h2c": func(s *httptest.Server) {
			s.Config.Protocols = cleartext
			s.Start()
			s.Client().Transport.(*http.Transport).Protocols = cleartext
		},
	} {
		s := httptest.NewUnstartedServer(h)
		start(s)
		t.Cleanup(s.Close)
		servers[name] = &server{Server: s}
	}
	return servers
}

// A request that came over one protocol is replayed over all, and what its answer
// said of its connection alone is not.
// Covers RSP-11.
func TestProtocols(t *testing.T) {
	t.Parallel()
	s := serve(t, payOperation, answers(201, `{"id":7}`, "Content-Type", "application/json", "X-Twice", "a", "X-Twice", "b",
		"Connection", "Keep-Alive", "Keep-Alive", "timeout=5", "Content-Length", "8", "Date", "Thu, 01 Jan 1970 00:00:00 GMT", "Trailer", "X-Sum"))
	servers := protocols(t, s.Config.Handler)
	for first, from := range servers {
		was := from.send(t, `{}`, "Idempotency-Key", first)
		if was.status != 201 || was.body != `{"id":7}` || was.header.Get("Idempotent-Replayed") != "" {
			t.Errorf("%s: %+v", first, was)
		}
		for second, to := range servers {
			got := to.send(t, `{}`, "idempotency-key", first, "Idempotency-Key", "<none>")
			if got.header.Get("Date") == "Thu, 01 Jan 1970 00:00:00 GMT" {
				t.Errorf("%s after %s: an old Date", second, first)
			}
			got.header.Del("Date")
			want := http.Header{
				"Cache-Control": {"no-store"}, "Content-Length": {"8"}, "Content-Type": {"application/json"}, "Idempotent-Replayed": {"true"}, "X-Twice": {"a", "b"},
			}
			if got.status != was.status || got.body != was.body || fmt.Sprint(got.header) != fmt.Sprint(want) {
				t.Errorf("%s after %s: %+v", second, first, got)
			}
		}
	}
	if n := s.runs.Load(); n != int64(len(servers)) {
		t.Errorf("%d runs", n)
	}
}

// A body that is too long, for the server or for a middleware before it, ends the
// connection in HTTP/1.1, where the rest of it would come. In HTTP/2 the requests
// of others go on.
// Covers SEC-09.
func TestTooLargeBodyEndsOneRequest(t *testing.T) {
	t.Parallel()
	edge := idempotency.NewEdge[struct{}](memstore.New(), idempotency.Unscoped, idempotency.WithRequestLimit(20))
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-From", r.RemoteAddr)
		if r.Header.Get("X-Before") != "" {
			r.Body = http.MaxBytesReader(w, r.Body, 10)
		}
		edge.ServeHTTP(w, r, &payOperation, func(w http.ResponseWriter, r *http.Request) {
			answer, err := edge.Run(r.Context(), &payOperation, func(context.Context, struct{}, *idempotency.Call) (idempotency.Visit, error) {
				return answers(201, "")(nil, nil)
			})
			if err != nil {
				t.Error(err)
				return
			}
			if err := answer.WriteTo(w); err != nil {
				t.Error(err)
			}
		})
	})
	for name, s := range protocols(t, h) {
		for _, c := range []struct{ body, before, limit string }{
			{strings.Repeat(" ", 21), "", "20 bytes"},
			{strings.Repeat(" ", 11), "yes", "10 bytes"},
		} {
			from := s.send(t, `{}`).header.Get("X-From")
			long := s.send(t, c.body, "X-Before", c.before)
			if long.status != 413 || long.code(t) != idempotency.CodeBodyTooLarge || !strings.Contains(long.body, c.limit) || long.header.Get("X-From") != from {
				t.Errorf("%s: %+v, want 413 and %s", name, long, c.limit)
			}
			if same := s.send(t, `{}`).header.Get("X-From") == from; same != (name != "HTTP/1.1") {
				t.Errorf("%s: on the same connection afterwards: %t", name, same)
			}
		}
	}
}
