package pgxstore_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// fate is what a proxy does with a statement and what follows it.
type fate int

const (
	forward    fate = iota
	cut             // ends the connection before the statement reaches the server
	loseAnswer      // lets it be carried out, then ends the connection instead of answering
	holdAnswer      // lets it be carried out and never answers
	blackhole       // swallows everything from here on, in both directions
)

// proxy passes PostgreSQL's protocol on, message by message, and knows which
// SQL each message carries out.
type proxy struct {
	dsn      string // leads through the proxy
	server   string
	listener net.Listener
	link     func(client, server net.Conn) // passes bytes on, if messages do not matter

	mu    sync.Mutex
	rules []*rule
	links []*link
}

// stop ends all connections and takes no more.
func (p *proxy) stop() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.links {
		l.close()
	}
}

// rule applies its fate once, to the next statement that begins with its text.
type rule struct {
	text   string
	fate   fate
	before func()        // called before the statement is passed on, if any
	hit    chan struct{} // closed when the fate has been carried out
}

// newProxy starts a proxy in front of the server of dsn.
func newProxy(t testing.TB, dsn string) *proxy {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = listener.Addr().String()
	p := &proxy{dsn: u.String(), server: fmt.Sprintf("%s:%d", cfg.Host, cfg.Port), listener: listener}
	go p.accept()
	t.Cleanup(p.stop)
	return p
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
		l := &link{proxy: p, client: client, server: server, statements: make(map[string]string)}
		p.mu.Lock()
		p.links = append(p.links, l)
		p.mu.Unlock()
		if p.link != nil {
			p.link(client, server)
			continue
		}
		go l.toServer()
		go l.toClient()
	}
}

// on adds a rule. The channel is closed when the rule has struck.
func (p *proxy) on(text string, f fate) <-chan struct{} {
	return p.add(&rule{text: text, fate: f})
}

// before makes the proxy call do before it passes on the next statement that
// begins with text.
func (p *proxy) before(text string, do func()) {
	p.add(&rule{text: text, before: do})
}

func (p *proxy) add(r *rule) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.hit = make(chan struct{})
	p.rules = append(p.rules, r)
	return r.hit
}

// match takes the rule for a statement out of the list.
func (p *proxy) match(sql string) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.rules {
		if strings.HasPrefix(sql, r.text) {
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
	statements     map[string]string // SQL by name of the prepared statement

	mu     sync.Mutex
	struck *rule // set once a rule other than forward applies
}

func (l *link) close() {
	l.client.Close()
	l.server.Close()
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

// toServer passes the client's messages on until one of them meets a rule.
func (l *link) toServer() {
	defer l.server.Close() // a client that has gone is gone for the server too
	if message, err := readStartup(l.client); err != nil || !write(l.server, message) {
		return
	}
	for {
		message, err := readMessage(l.client)
		if err != nil {
			return
		}
		if r := l.match(l.sql(message)); r != nil {
			switch r.fate {
			case forward:
				r.before()
			case loseAnswer, holdAnswer:
				l.strike(r)
			case cut:
				l.close()
				close(r.hit)
				return
			case blackhole:
				l.strike(r)
				close(r.hit)
				_, _ = io.Copy(io.Discard, l.client)
				return
			}
		}
		if !write(l.server, message) {
			return
		}
	}
}

// toClient passes the server's messages on, as far as the rule that has struck
// lets it.
func (l *link) toClient() {
	defer l.client.Close()
	for {
		message, err := readMessage(l.server)
		if err != nil {
			if r := l.rule(); r != nil && r.fate == blackhole {
				_, _ = io.Copy(io.Discard, l.client) // the client is not to notice
			}
			return
		}
		r := l.rule()
		switch {
		case r == nil:
			if !write(l.client, message) {
				return
			}
		case r.fate != blackhole && message[0] == 'Z': // ready for the next query: all is carried out
			close(r.hit)
			if r.fate == loseAnswer {
				l.close()
				return
			}
		}
	}
}

// sql returns the SQL that a message of the client carries out, or "".
func (l *link) sql(message []byte) string {
	body := message[5:]
	switch message[0] {
	case 'Q':
		return text(&body)
	case 'P':
		name := text(&body)
		l.statements[name] = text(&body)
	case 'B':
		_ = text(&body) // the portal
		return l.statements[text(&body)]
	}
	return ""
}

// text cuts a string off b that ends with a zero byte.
func text(b *[]byte) string {
	s, rest, _ := bytes.Cut(*b, []byte{0})
	*b = rest
	return string(s)
}

// readStartup reads the first message of a client, which has no type.
func readStartup(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint32(length[:]))
	copy(message, length[:])
	_, err := io.ReadFull(r, message[4:])
	return message, err
}

func readMessage(r io.Reader) ([]byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	message := make([]byte, 1+binary.BigEndian.Uint32(head[1:]))
	copy(message, head[:])
	_, err := io.ReadFull(r, message[5:])
	return message, err
}

func write(w io.Writer, b []byte) bool {
	_, err := w.Write(b)
	return err == nil
}
