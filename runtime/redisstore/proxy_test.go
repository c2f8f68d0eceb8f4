package redisstore_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
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
)

// proxy stands between a client and a server.
type proxy struct {
	addr string

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
	struck chan struct{} // a value for each command that met the fate
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), links: map[net.Conn]net.Conn{}}
	t.Cleanup(func() { l.Close(); p.closeAll() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client, target)
		}
	}()
	return p
}

func (p *proxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for client, server := range p.links {
		client.Close()
		server.Close()
	}
}

// script returns what tells a script in a command: its hash.
func script(t testing.TB, name string) string {
	t.Helper()
	source, err := os.ReadFile("lua/" + name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(source)
	return hex.EncodeToString(sum[:])
}

// on gives the next n commands that contain text a fate.
func (p *proxy) on(text string, f fate, n int) *rule {
	r := &rule{text: []byte(text), fate: f, left: n, struck: make(chan struct{}, n)}
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
				r.struck <- struct{}{}
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
			r.struck <- struct{}{}
			return
		case r.fate == blackhole:
			r.struck <- struct{}{}
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
