package redisstore_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
)

// fate is what a proxy does with a command.
type fate int

const (
	loseAnswer fate = iota // the server carries it out; the connection ends before the answer
	cut                    // the connection ends before the server has it
	blackhole              // it vanishes, and so does all that follows on its connection
	refuse                 // it is answered by an error, and the server does not get it
)

// proxy stands between a client and servers.
type proxy struct {
	addr string            // of the first server
	via  map[string]string // where the proxy listens for each server

	mu    sync.Mutex
	rules []*rule
	links map[net.Conn]net.Conn // client to server
	dark  bool
}

// rule is a fate for the next commands that contain a text.
type rule struct {
	text   []byte
	fate   fate
	left   int
	then   func()        // what happens between the command and the end of its connection, or nil
	struck chan struct{} // a value for each command that met the fate
}

// strike makes a command meet its fate.
func (r *rule) strike() {
	if r.then != nil {
		r.then()
	}
	r.struck <- struct{}{}
}

func newProxy(t testing.TB, targets ...string) *proxy {
	t.Helper()
	p := &proxy{via: map[string]string{}, links: map[net.Conn]net.Conn{}}
	t.Cleanup(p.closeAll)
	for _, target := range targets {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		p.via[target] = l.Addr().String()
		go func() {
			for {
				client, err := l.Accept()
				if err != nil {
					return
				}
				go p.serve(client, target)
			}
		}()
	}
	p.addr = p.via[targets[0]]
	return p
}

// dial connects to a server through the proxy.
func (p *proxy) dial(_ context.Context, network, server string) (net.Conn, error) {
	via, found := p.via[server]
	if !found {
		return nil, fmt.Errorf("the proxy does not know %s", server)
	}
	return net.Dial(network, via)
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.links {
		client.Close()
		server.Close()
	}
}

// source returns the text of a script.
func source(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("lua/" + name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// script returns what tells a script in a command: its hash.
func script(t testing.TB, name string) string {
	t.Helper()
	sum := sha1.Sum([]byte(source(t, name)))
	return hex.EncodeToString(sum[:])
}

// on gives the next n commands that contain text a fate.
func (p *proxy) on(text string, f fate, n int) *rule { return p.onThen(text, f, n, nil) }

// onThen gives the next n commands that contain text a fate, and calls then for
// each.
func (p *proxy) onThen(text string, f fate, n int, then func()) *rule {
	r := &rule{text: []byte(text), fate: f, left: n, then: then, struck: make(chan struct{}, n)}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// clear forgets all fates.
func (p *proxy) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// darken makes all that is sent from now on vanish, or no longer.
func (p *proxy) darken(dark bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dark = dark
}

// judge returns the rule that data meets.
func (p *proxy) judge(data []byte) (met *rule, dark bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.left > 0 && bytes.Contains(data, r.text) {
			r.left--
			return r, p.dark
		}
	}
	return nil, p.dark
}

func (p *proxy) serve(client net.Conn, target string) {
	server, err := net.Dial("tcp", target)
	if err != nil {
		client.Close()
		return
	}
	p.mu.Lock()
	p.links[client] = server
	p.mu.Unlock()
	defer client.Close()
	defer server.Close()

	losing := make(chan *rule, 1) // what the next answer meets
	go func() {
		defer client.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			select {
			case r := <-losing:
				r.strike()
				return
			default:
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 4<<20)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		r, dark := p.judge(buf[:n])
		switch {
		case dark:
			_, _ = io.Copy(io.Discard, client)
			return
		case r == nil:
		case r.fate == cut:
			r.strike()
			return
		case r.fate == refuse:
			r.strike()
			if _, err := io.WriteString(client, "-NOPERM refused by the proxy\r\n"); err != nil {
				return
			}
			continue
		case r.fate == blackhole:
			r.strike()
			_, _ = io.Copy(io.Discard, client)
			return
		default:
			losing <- r
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
