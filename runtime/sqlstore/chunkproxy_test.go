package sqlstore_test

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// fate is what a proxy does with a message and what follows it.
type fate int

const (
	forward    fate = iota
	cut             // ends the connection before the message reaches the server
	loseAnswer      // lets it be carried out, then ends the connection instead of answering
	holdAnswer      // lets it be carried out and never answers
	blackhole       // swallows everything from here on, in both directions
)

// proxy passes bytes on, for any protocol that answers each message. Drivers
// write a message at once, so that what is read at once is one.
type proxy struct {
	addr, server string
	listener     net.Listener

	mu    sync.Mutex
	rules []*rule
	conns []net.Conn
}

// rule applies its fate once, to the next message that contains its text, in
// either letter case.
type rule struct {
	text   string
	fate   fate
	before func()        // called before the message is passed on, if any
	hit    chan struct{} // closed when the fate has been carried out
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: listener.Addr().String(), server: server, listener: listener}
	go p.accept()
	t.Cleanup(p.stop)
	return p
}

// stop ends all connections and takes no more.
func (p *proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		l := &link{proxy: p, client: client, server: server}
		go l.toServer()
		go l.toClient()
	}
}

// on adds a rule. The channel is closed when it has struck.
func (p *proxy) on(text string, f fate) <-chan struct{} {
	return p.add(&rule{text: text, fate: f, before: func() {}})
}

// before makes the proxy call do before it passes on the next message that
// contains text.
func (p *proxy) before(text string, do func()) { p.add(&rule{text: text, before: do}) }

func (p *proxy) add(r *rule) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.hit = make(chan struct{})
	p.rules = append(p.rules, r)
	return r.hit
}

// match takes the rule for a message out of the list.
func (p *proxy) match(message []byte) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.rules {
		if bytes.Contains(bytes.ToLower(message), bytes.ToLower([]byte(r.text))) {
			p.rules = append(p.rules[:i:i], p.rules[i+1:]...)
			return r
		}
	}
	return nil
}

// link is one connection through the proxy.
type link struct {
	*proxy
	client, server net.Conn

	mu     sync.Mutex
	struck *rule
}

func (l *link) strike(r *rule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.struck = r
}

func (l *link) rule() *rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.struck
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
}

func (l *link) toServer() {
	defer l.server.Close() // a client that has gone is gone for the server too
	buf := make([]byte, 1<<16)
	for {
		n, err := l.client.Read(buf)
		if err != nil {
			return
		}
		if r := l.match(buf[:n]); r != nil {
			r.before()
			switch r.fate {
			case forward:
			case cut:
				l.close()
				close(r.hit)
				return
			case blackhole:
				l.strike(r)
				close(r.hit)
				_, _ = io.Copy(io.Discard, l.client)
				return
			case loseAnswer, holdAnswer:
				l.strike(r)
			}
		}
		if _, err := l.server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (l *link) toClient() {
	buf := make([]byte, 1<<16)
	for {
		n, err := l.server.Read(buf)
		r := l.rule()
		switch {
		case err != nil && r != nil && r.fate != loseAnswer:
			_, _ = io.Copy(io.Discard, l.client) // the client is not to notice
			return
		case err != nil:
			l.client.Close()
			return
		case r == nil:
			if _, err := l.client.Write(buf[:n]); err != nil {
				return
			}
		case r.fate == blackhole:
		default: // it was carried out
			select {
			case <-r.hit:
			default:
				close(r.hit)
			}
			if r.fate == loseAnswer {
				l.close()
				return
			}
		}
	}
}
