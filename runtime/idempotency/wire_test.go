package idempotency_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

type (
	opaqueOp struct{}
	shortOp  struct{}
	uuidOp   struct{}
	uuidv7Op struct{}
)

var (
	opaqueOperation = withKey(idempotency.KeyRule{})
	shortOperation  = withKey(idempotency.KeyRule{MaxLength: 8})
	uuidOperation   = withKey(idempotency.KeyRule{Format: idempotency.KeyUUID})
	uuidv7Operation = withKey(idempotency.KeyRule{Format: idempotency.KeyUUIDv7})
)

func (opaqueOp) Operation() *idempotency.Operation { return &opaqueOperation }
func (shortOp) Operation() *idempotency.Operation  { return &shortOperation }
func (uuidOp) Operation() *idempotency.Operation   { return &uuidOperation }
func (uuidv7Op) Operation() *idempotency.Operation { return &uuidv7Operation }

func withKey(rule idempotency.KeyRule) idempotency.Operation {
	op := payOperation
	op.Key = rule
	return op
}

// A program can make exactly the keys that a server takes, and both read them
// alike: each value is parsed here, and sent as it stands over a connection of
// its own. Blanks around a field's value are no part of it (RFC 9110 section
// 5.5), so a server never sees those that a program is refused.
//
// Covers CLI-18.
func TestKeysAreWhatTheServerTakes(t *testing.T) {
	t.Parallel()
	random := hostileTexts(300, `"\,; =a1~!`+"\t\x00\x7f\x80\xc3\xa9\xff")
	var everyByte []string
	for c := range 256 {
		for _, form := range []string{"?a", "a?b", "a?", `"?"`, `"a?b"`, `"a";p=?`} {
			everyByte = append(everyByte, strings.Replace(form, "?", string([]byte{byte(c)}), 1))
		}
	}
	long := strings.Repeat("k", 255)
	t.Run("opaque", func(t *testing.T) {
		t.Parallel()
		sameGrammar[opaqueOp](t, slices.Concat(random, everyByte, []string{"", " ", `""`, long, long + "k", `"` + long + `"`, `"` + long + `k"`}))
	})
	t.Run("short", func(t *testing.T) {
		t.Parallel()
		sameGrammar[shortOp](t, append(hostileTexts(100, `"\,ab`), "12345678", "123456789", `"12345678"`, `"123456789"`, `"\\234567\\"`))
	})
	uuid := "8E03978e-40d5-43dd-bc93-6894a57f9324"
	t.Run("uuid", func(t *testing.T) {
		t.Parallel()
		sameGrammar[uuidOp](t, []string{uuid, `"` + uuid + `"`, uuid[1:], uuid + "0", "{" + uuid + "}", strings.ReplaceAll(uuid, "-", ""), "urn:uuid:" + uuid, "g" + uuid[1:]})
	})
	t.Run("uuidv7", func(t *testing.T) {
		t.Parallel()
		now := idempotency.NewKey[uuidv7Op]().String()
		sameGrammar[uuidv7Op](t, []string{now, strings.ToUpper(now), `"` + now + `"`, uuid, now[:14] + "4" + now[15:], now[:19] + "c" + now[20:]})
	})
}

// sameGrammar checks each text against a server of the operation Op.
func sameGrammar[Op idempotency.OpType](t *testing.T, texts []string) {
	t.Helper()
	seen := make(chan idempotency.Key[Op], 1) // one request at a time
	var op Op
	s := serve(t, *op.Operation(), func(_ context.Context, call *idempotency.Call) (idempotency.Visit, error) {
		seen <- idempotency.KeyOf[Op](call)
		// Not kept, so that the next text of the same key runs too.
		return func(w http.ResponseWriter) error { w.WriteHeader(http.StatusTooManyRequests); return nil }, nil
	})
	send := func(text string) (key idempotency.Key[Op], taken bool) {
		t.Helper()
		select {
		case <-s.events: // of the request before
		default:
		}
		if sendKeyRaw(t, s, text) != http.StatusTooManyRequests {
			return key, false
		}
		return <-seen, true
	}
	accepted := 0
	for _, text := range texts {
		key, err := idempotency.ParseKey[Op](text)
		if strings.ContainsAny(text, "\r\n") {
			if err == nil {
				t.Errorf("ParseKey(%q) = %v: it would end the header field", text, key)
			}
			continue
		}
		onWire, wireErr := idempotency.ParseKey[Op](strings.Trim(text, " \t"))
		if err == nil && !key.Equal(onWire) {
			t.Errorf("ParseKey(%q) = %v, without the blanks %v", text, key, onWire)
		}
		if got, taken := send(text); taken != (wireErr == nil) || !got.Equal(onWire) {
			t.Errorf("%q: the server takes %v (%t), ParseKey returns %v, %v", text, got, taken, onWire, wireErr)
		}
		if err != nil {
			continue
		}
		accepted++
		if got, taken := send(key.String()); !taken || !got.Equal(key) {
			t.Errorf("ParseKey(%q) makes %v, of which the server takes %v (%t)", text, key, got, taken)
		}
	}
	if accepted == 0 || accepted == len(texts) {
		t.Errorf("%d of %d texts are keys: the test says nothing", accepted, len(texts))
	}
}

// sendKeyRaw sends a request whose key is text, byte for byte, and returns the
// answer's status.
func sendKeyRaw(t *testing.T, s *server, text string) int {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /pay HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Api-Key: alice\r\nContent-Type: application/json\r\nContent-Length: 2\r\nIdempotency-Key: %s\r\n\r\n{}", text)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return resp.StatusCode
}

// hostileTexts returns n texts of the alphabet's bytes, the same ones each time.
func hostileTexts(n int, alphabet string) []string {
	random := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		text := make([]byte, random.IntN(12))
		for j := range text {
			text[j] = alphabet[random.IntN(len(alphabet))]
		}
		texts[i] = string(text)
		if i%2 == 0 {
			texts[i] = `"` + texts[i] + `"`
		}
	}
	return texts
}

type transfer struct {
	To     string            `json:"to"`
	Labels map[string]string `json:"labels"`
}

// A request is a copy: it does not follow the variables that it was made of,
// and nothing of it goes into the next one. Only what slices, maps and pointers
// refer to is shared; a program that changes that and sends the key again is
// told so, and nothing happens twice.
//
// Covers CLI-02.
func TestRequestIsACopy(t *testing.T) {
	t.Parallel()
	s := serve(t, opaqueOperation, answers(http.StatusCreated, ""))
	send := func(key idempotency.Key[opaqueOp], in idempotency.Sealed[transfer]) reply {
		t.Helper()
		body, err := json.Marshal(in.Value())
		if err != nil {
			t.Fatal(err)
		}
		return s.send(t, string(body), "Idempotency-Key", key.String())
	}
	first, second := idempotency.NewKey[opaqueOp](), idempotency.NewKey[opaqueOp]()
	in := transfer{To: "a", Labels: map[string]string{"order": "1"}}
	sealed := idempotency.Seal(first, in)
	if r := send(first, sealed); r.status != http.StatusCreated {
		t.Fatalf("%+v", r)
	}

	in.To = "b"
	if r := send(second, idempotency.Seal(second, in)); r.status != http.StatusCreated || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("a second request of the same variable: %+v", r)
	}
	if r := send(first, sealed); r.status != http.StatusCreated || r.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the first request again: %+v", r)
	}

	in.Labels["order"] = "2"
	if r := send(first, sealed); r.code(t) != idempotency.CodeMismatch {
		t.Errorf("the first key with another body: %+v", r)
	}
	if n := s.runs.Load(); n != 2 {
		t.Errorf("%d runs, want one for each key", n)
	}
}
