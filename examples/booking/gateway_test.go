package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/retry"
)

// exchange is a request that has come through a gateway, and its answer.
type exchange struct {
	Key      string
	Status   int // 0 if the server gave no answer
	Replayed bool
	Body     string
}

// gateway is the address of a service that outlives its processes. It passes
// requests on to the process of the moment, and remembers those that hold a key.
type gateway struct {
	URL string

	mu        sync.Mutex
	target    *url.URL
	lose      func(*http.Request) // runs before an answer is lost; nil loses none
	exchanges []exchange
	// hold is called for each request that comes and each answer that goes.
	hold func()
}

func newGateway(t *testing.T, hold func()) *gateway {
	t.Helper()
	g := &gateway{hold: hold}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			g.hold()
			g.mu.Lock()
			defer g.mu.Unlock()
			r.SetURL(g.target)
		},
		ModifyResponse: g.answered,
		// The client sees what it would see of the server: a broken connection.
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) {
			g.remember(r, exchange{})
			panic(http.ErrAbortHandler)
		},
	})
	t.Cleanup(proxy.Close)
	g.URL = proxy.URL
	return g
}

// errLost ends an exchange whose answer is to be lost.
var errLost = errors.New("the answer is lost")

func (g *gateway) answered(r *http.Response) error {
	g.mu.Lock()
	lose := g.lose
	g.mu.Unlock()
	if lose != nil {
		lose(r.Request)
		return errLost
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	g.remember(r.Request, exchange{Status: r.StatusCode, Replayed: retry.Replayed(r), Body: string(body)})
	return nil
}

func (g *gateway) remember(r *http.Request, e exchange) {
	g.hold()
	if e.Key = r.Header.Get("Idempotency-Key"); e.Key == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.exchanges = append(g.exchanges, e)
}

// passTo makes the process at this address the one that requests go to.
func (g *gateway) passTo(t *testing.T, address string) {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.target = target
}

// loseAnswers makes the gateway run how and then break the connection when an
// answer has come; nil ends that.
func (g *gateway) loseAnswers(how func(*http.Request)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lose = how
}

// seen returns the exchanges so far, in the order in which they ended.
func (g *gateway) seen() []exchange {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.exchanges)
}
