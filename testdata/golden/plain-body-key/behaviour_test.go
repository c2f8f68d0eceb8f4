package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/testdata/drive"
)

const (
	someUUID  = "8e03978e-40d5-43dd-bc93-6894a57f9324"
	upperUUID = "8E03978E-40D5-43DD-BC93-6894A57F9324"
)

// bodyCase is an operation and its bodies: with the key's member at the %s, with
// the same content spelt otherwise, and with other content.
type bodyCase struct {
	path, mediaType, member   string
	body, sameBody, otherBody string
	key, sameKey              string
}

var jsonCases = map[string]bodyCase{
	"inline": {
		"/payments", "application/json", "idempotency_key",
		`{%s"amount":1}`, ` { %s "amount" : 1 } `, `{%s"amount":2}`, "k1", "k1",
	},
	"by $ref": {
		"/refunds", "application/json", "idempotency_key",
		`{%s"amount":1}`, `{%s"\u0061mount": 1}`, `{%s"amount":9007199254740993}`, "a,b", "a,b",
	},
	"nested": {
		"/transfers", "application/json", "request/id",
		`{"meta":{%s"note":"n"},"amount":1}`, `{"amount":1,"meta":{%s"note":"\u006e"}}`, `{"meta":{%s"note":"m"},"amount":1}`, someUUID, upperUUID,
	},
	"oneOf": {
		"/orders", "application/json", "idempotency_key",
		`{%s"by":"phone","number":"5"}`, `{"number":"5",%s"by":"phone"}`, `{%s"by":"shop"}`, `"quoted"`, `"quoted"`,
	},
	"allOf": {
		"/shipments", "application/vnd.shipment+json", "idempotency_key",
		`{%s"to":"Ada"}`, `{%s"to":"\u0041da"}`, `{%s"to":"Bob"}`, "k1", "k1",
	},
	"any object": {
		"/events", "application/json", "id",
		`{%s"amount":1}`, `{%s"amount":1.0}`, `{%s"amount":"1"}`, "evt_1", "evt_1",
	},
	"two media types": {
		"/either", "application/json; charset=utf-8", "idempotency_key",
		`{%s"amount":1}`, `{%s"\u0061mount": 1}`, `{%s"amount":2}`, "k1", "k1",
	},
}

func (c bodyCase) keyed(body, key string) string {
	return fmt.Sprintf(body, fmt.Sprintf(`%q:%q,`, c.member, key))
}

func (c bodyCase) send(t *testing.T, srv *httptest.Server, body string, keys ...string) drive.Answer {
	t.Helper()
	return drive.Send(t, srv.URL, drive.Request{Method: "POST", Path: c.path, ContentType: c.mediaType, Body: body}, "Idempotency-Key", keys...)
}

// A key in the body does what one in a header does, whatever stands in a header
// beside it.
//
// Covers FPR-01, PRO-03, PRO-04.
func TestKeyInJSON(t *testing.T) {
	t.Parallel()
	for name, c := range jsonCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			srv := httptest.NewServer(newHandler(s))
			t.Cleanup(srv.Close)
			for what, test := range map[string]struct{ members, code string }{
				"missing":           {``, "key_missing"},
				"null":              {`"MEMBER":null,`, "key_missing"},
				"empty":             {`"MEMBER":"",`, "key_invalid"},
				"blank":             {`"MEMBER":" ",`, "key_invalid"},
				"a number":          {`"MEMBER":1,`, "key_invalid"},
				"a list":            {`"MEMBER":["KEY"],`, "key_invalid"},
				"an object":         {`"MEMBER":{"MEMBER":"KEY"},`, "key_invalid"},
				"twice":             {`"MEMBER":"KEY","MEMBER":"KEY",`, "key_invalid"},
				"two keys":          {`"MEMBER":"KEY","MEMBER":"KEY0",`, "key_invalid"},
				"twice, once null":  {`"MEMBER":"KEY","MEMBER":null,`, "key_invalid"},
				"other letter case": {`"UPPER":"KEY",`, "key_invalid"},
				"both letter cases": {`"MEMBER":"KEY","UPPER":"KEY",`, "key_invalid"},
				"over-long":         {`"MEMBER":"` + strings.Repeat("k", 256) + `",`, "key_invalid"},
				"not ASCII":         {`"MEMBER":"clé",`, "key_invalid"},
			} {
				quotedKey := strconv.Quote(c.key)
				quotedKey = quotedKey[1 : len(quotedKey)-1]
				members := strings.NewReplacer("MEMBER", c.member, "UPPER", strings.ToUpper(c.member), "KEY", quotedKey).Replace(test.members)
				for _, keys := range [][]string{nil, {"other"}} {
					drive.Refused(t, what, c.send(t, srv, fmt.Sprintf(c.body, members), keys...), http.StatusBadRequest, test.code)
				}
			}
			broken := c.send(t, srv, strings.TrimSuffix(c.keyed(c.body, c.key), "}"))
			if broken.Status != http.StatusBadRequest || strings.Contains(broken.Body, "key_") {
				t.Errorf("bad JSON: %+v", broken)
			}
			drive.Refused(t, "bytes after the value", c.send(t, srv, c.keyed(c.body, c.key)+" x"), http.StatusBadRequest, "body_invalid")
			if s.runs.Load() != 0 {
				t.Fatalf("the handler ran %d times", s.runs.Load())
			}

			first := c.send(t, srv, c.keyed(c.body, c.key))
			want := fmt.Sprintf(`{"key":%q,"run":1}`+"\n", c.key)
			if first.Status != http.StatusCreated || first.Body != want || first.Header.Get("Idempotent-Replayed") != "" {
				t.Fatalf("first: %+v, want %s", first, want)
			}
			for _, body := range []string{c.keyed(c.body, c.key), c.keyed(c.body, c.sameKey), c.keyed(c.sameBody, c.sameKey)} {
				for _, keys := range [][]string{nil, {"other"}, {"a", "b"}} {
					again := c.send(t, srv, body, keys...)
					if again.Status != first.Status || again.Body != first.Body || again.Header.Get("Idempotent-Replayed") != "true" {
						t.Errorf("replay of %s beside %q: %+v", body, keys, again)
					}
				}
			}
			drive.Refused(t, "mismatch", c.send(t, srv, c.keyed(c.otherBody, c.key)), http.StatusUnprocessableEntity, "mismatch")
			if s.runs.Load() != 1 {
				t.Errorf("the handler ran %d times", s.runs.Load())
			}
		})
	}
}

// A form holds its key as a value, and the bytes of all others count.
func TestKeyInForm(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/forms", "/either"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			s := new(server)
			srv := httptest.NewServer(newHandler(s))
			t.Cleanup(srv.Close)
			c := bodyCase{path: path, mediaType: "application/x-www-form-urlencoded"}
			const rest = "color=red&amount=1"
			for body, code := range map[string]string{
				rest:                          "key_missing",
				rest + "&Idempotency_Key=k1":  "key_invalid",
				rest + "&[idempotency_key]=k": "key_invalid",
				rest + "&idempotency_key=":    "key_invalid",
				rest + "&idempotency_key=a+b": "key_invalid",
				"idempotency_key=k1&" + rest + "&idempotency_key=k1": "key_invalid",
			} {
				drive.Refused(t, body, c.send(t, srv, body, "header"), http.StatusBadRequest, code)
			}
			if broken := c.send(t, srv, rest+"&idempotency_key=k1&x=%zz"); broken.Status != http.StatusBadRequest {
				t.Errorf("a bad form: %+v", broken)
			}
			first := c.send(t, srv, rest+"&idempotency_key=k1")
			if first.Status != http.StatusCreated || first.Body != `{"key":"k1","run":1}`+"\n" {
				t.Fatalf("first: %+v", first)
			}
			for _, body := range []string{rest + "&idempotency_key=k1", "idempotency_key=%6b1&" + rest} {
				if again := c.send(t, srv, body, "header"); again.Body != first.Body || again.Header.Get("Idempotent-Replayed") != "true" {
					t.Errorf("replay of %s: %+v", body, again)
				}
			}
			drive.Refused(t, "mismatch", c.send(t, srv, "color=blue&amount=1&idempotency_key=k1"), http.StatusUnprocessableEntity, "mismatch")
			if s.runs.Load() != 1 {
				t.Errorf("the handler ran %d times", s.runs.Load())
			}
		})
	}
}

// Nothing runs for a key in a body that not every server decodes.
func TestKeyInBodyOfUnclearType(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	const inJSON, inForm = `{"idempotency_key":"k1"}`, "color=red&idempotency_key=k1"
	for _, c := range []bodyCase{
		{path: "/either", mediaType: "Application/JSON", body: inJSON},
		{path: "/either", mediaType: "Application/X-WWW-Form-URLEncoded", body: inForm},
		{path: "/notes", mediaType: "application/x-www-form-urlencoded", body: inJSON},
		{path: "/notes", mediaType: "text/xml", body: inJSON},
		{path: "/refunds", mediaType: "application/xml", body: inJSON},
	} {
		drive.Refused(t, c.path+" "+c.mediaType, c.send(t, srv, c.body), http.StatusBadRequest, "body_invalid")
	}
	// net/http takes these for no form at all.
	for _, mediaType := range []string{"", "multipart/form-data; boundary=b", "application/x-www-form-urlencoded-x"} {
		c := bodyCase{path: "/forms", mediaType: mediaType}
		if got := c.send(t, srv, inForm); got.Status != http.StatusBadRequest {
			t.Errorf("%s: %+v", mediaType, got)
		}
	}
	if s.runs.Load() != 0 {
		t.Errorf("the handler ran %d times", s.runs.Load())
	}
}

// An operation whose key is optional runs unprotected without one, whatever a
// header says, and does not run for a key that is wrong.
func TestOptionalKeyInBody(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	c := bodyCase{path: "/notes", mediaType: "application/json"}
	for i, body := range []string{"", `{}`, `{"text":"t"}`, `{"text":"t"}`, `{"idempotency_key":null}`} {
		if got := c.send(t, srv, body, "header"); got.Status != http.StatusCreated || got.Body != fmt.Sprintf(`{"key":"","run":%d}`+"\n", i+1) {
			t.Errorf("%s: %+v", body, got)
		}
	}
	for _, body := range []string{`{"idempotency_key":""}`, `{"Idempotency_Key":"k1"}`, `{"idempotency_key":1}`} {
		drive.Refused(t, body, c.send(t, srv, body), http.StatusBadRequest, "key_invalid")
	}
	first := c.send(t, srv, `{"idempotency_key":"k1"}`)
	if again := c.send(t, srv, `{ "idempotency_key" : "k1" }`); again.Body != first.Body || again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("first %+v, replay %+v", first, again)
	}
	if s.runs.Load() != 6 {
		t.Errorf("the handler ran %d times", s.runs.Load())
	}
}

// With a raw fingerprint the bytes count, and a declared header counts that
// holds no key.
func TestRawFingerprintOfKeyInBody(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s))
	t.Cleanup(srv.Close)
	c := bodyCase{path: "/raw", mediaType: "application/json"}
	const body = `{"idempotency_key":"k1","amount":1}`
	if first := c.send(t, srv, body, "h1"); first.Status != http.StatusCreated {
		t.Fatalf("first: %+v", first)
	}
	if again := c.send(t, srv, body, "h1"); again.Header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("replay: %+v", again)
	}
	drive.Refused(t, "other bytes", c.send(t, srv, " "+body, "h1"), http.StatusUnprocessableEntity, "mismatch")
	drive.Refused(t, "another header", c.send(t, srv, body, "h2"), http.StatusUnprocessableEntity, "mismatch")
}

// The body's limit comes first, and the key's member does not stand in the way
// of an operation whose key is in a header.
func TestKeyInBodyBesideOthers(t *testing.T) {
	t.Parallel()
	s := new(server)
	srv := httptest.NewServer(newHandler(s, idempotency.WithRequestLimit(64)))
	t.Cleanup(srv.Close)
	c := bodyCase{path: "/payments", mediaType: "application/json"}
	drive.Refused(t, "too large", c.send(t, srv, `{"amount":1}`+strings.Repeat(" ", 64)), http.StatusRequestEntityTooLarge, "body_too_large")
	c.path = "/header"
	drive.Refused(t, "missing", c.send(t, srv, `{"idempotency_key":"k1"}`), http.StatusBadRequest, "key_missing")
	if got := c.send(t, srv, `{"idempotency_key":5}`, "k1"); got.Status != http.StatusBadRequest || s.runs.Load() != 0 {
		t.Errorf("%+v", got) // of the decoder
	}
	if got := c.send(t, srv, `{"Idempotency_Key":"k2"}`, "k1"); got.Body != `{"key":"k1","run":1}`+"\n" {
		t.Errorf("%+v", got)
	}
	if got := IdempotencyRequestHeaders(); len(got) != 1 || got[0] != "Idempotency-Key" {
		t.Errorf("request headers %q", got)
	}
}
