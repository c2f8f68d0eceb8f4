package idempotency

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// bodyCall is a call of an operation whose key is in the body.
func bodyCall(pointer, mediaType, body string) *Call {
	kind := BodyJSON
	if mediaType == formType {
		kind = BodyRaw
	}
	r := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	r.Header.Set("Content-Type", mediaType)
	return &Call{
		op:      &Operation{ID: "o", Method: "POST", Path: "/", Key: KeyRule{Body: pointer}, Bodies: []Body{{mediaType, kind}}},
		request: r,
		body:    []byte(body),
	}
}

// The key is the content of the one string at its place. Whatever encoding/json
// could take for it and is not exactly that is refused.
//
// Covers PRO-04.
func TestBodyKey(t *testing.T) {
	t.Parallel()
	const missing, invalid, unread = "missing", "invalid", "unread"
	for _, test := range []struct{ pointer, body, want string }{
		{"/key", `{"key":"k1"}`, "k1"},
		{"/key", ` { "a" : [{"key":"x"}], "key" : "k1" , "b":{"key":"y"}}`, "k1"},
		{"/key", `{"key":"\u006b1"}`, "k1"},
		{"/key", `{"\u006bey":"k1"}`, "k1"},
		{"/key", `{"key":"\"k1\""}`, `"k1"`}, // as it stands
		{"/key", `{"key":"a,b"}`, "a,b"},
		{"/meta/key", `{"meta":{"key":"k1"},"key":"x"}`, "k1"},
		{"/a~1b/~0c", `{"a/b":{"~c":"k1"}}`, "k1"},

		{"/key", ``, missing},
		{"/key", " \n", missing},
		{"/key", `{}`, missing},
		{"/key", `null`, missing},
		{"/key", `{"key":null}`, missing},
		{"/key", `{"keys":"k1","meta":{"key":"k1"}}`, missing},
		{"/meta/key", `{"meta":null}`, missing},
		{"/meta/key", `{"meta":{}}`, missing},
		{"/meta/key", `{"key":"k1","meta":{"k":"k1"}}`, missing},

		{"/key", `{"key":""}`, invalid},
		{"/key", `{"key":" "}`, invalid},
		{"/key", `{"key":5}`, invalid},
		{"/key", `{"key":true}`, invalid},
		{"/key", `{"key":["k1"]}`, invalid},
		{"/key", `{"key":{"key":"k1"}}`, invalid},
		{"/key", `{"key":"clé"}`, invalid},
		{"/key", "{\"key\":\"\xff\"}", invalid},
		{"/key", `{"key":"` + strings.Repeat("k", 256) + `"}`, invalid},
		{"/key", `{"key":"k1","key":"k1"}`, invalid},
		{"/key", `{"key":"k1","key":null}`, invalid},
		{"/key", `{"key":null,"key":"k1"}`, invalid},
		{"/key", `{"key":"k1","Key":"k2"}`, invalid},
		{"/key", `{"KEY":"k2","key":"k1"}`, invalid},
		{"/key", `{"Key":"k1"}`, invalid},
		{"/key", `{"Key":null}`, invalid},
		{"/key", `{"\u212aey":"k1"}`, invalid}, // the Kelvin sign folds to k
		{"/meta/key", `{"Meta":{"key":"k1"}}`, invalid},
		{"/meta/key", `{"meta":{"key":"k1"},"META":{}}`, invalid},
		{"/meta/key", `{"meta":{},"meta":{"key":"k1"}}`, invalid},
		{"/meta/key", `{"meta":null,"meta":{"key":"k1"}}`, invalid},
		{"/meta/key", `{"meta":"k1"}`, invalid},
		{"/meta/key", `{"meta":[{"key":"k1"}]}`, invalid},
		{"/key", `["k1"]`, invalid},
		{"/key", `"k1"`, invalid},

		{"/key", `{"key":"k1"`, unread},
		{"/key", `{"key":"k1"} {}`, unread},
		{"/key", `{"key":'k1'}`, unread},
		{"/key", `{"key":"k1","n":01}`, unread},
		{"/key", strings.Repeat("[", maxJSONDepth+1), unread},
	} {
		call := bodyCall(test.pointer, "application/json", test.body)
		got, err := call.sentKey()
		switch {
		case errors.Is(err, ErrKeyInvalid):
			got = invalid
		case err != nil:
			t.Errorf("%s in %s: %v", test.pointer, test.body, err)
		case call.unread != nil:
			got = unread
		case got == "":
			got = missing
		}
		if got != test.want {
			t.Errorf("%s in %s: %s, %v; want %s", test.pointer, test.body, got, err, test.want)
		}
		if got == invalid && !strings.Contains(err.Error(), "the idempotency key in "+test.pointer+" ") {
			t.Errorf("%s in %s: %v, which does not name the member", test.pointer, test.body, err)
		}
	}
}

func TestFormKey(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"key=k1":                      "k1",
		"a=b&%6bey=a%2Cb&c=d":         "a,b",
		"":                            "",
		"keys=k1&[k]=k2":              "",
		"Key=k1":                      "key_invalid",
		"Key=k2&key=k1":               "key_invalid",
		"key[]=k2&key=k1":             "key_invalid",
		"[%E2%84%AA]ey=k1":            "key_invalid", // the Kelvin sign
		"K_ey=k1":                     "key_invalid",
		"key=":                        "key_invalid",
		"key":                         "key_invalid",
		"key=a+b":                     "key_invalid",
		"key=k1&key=k1":               "key_invalid",
		"key=k1&a=%zz":                "body_invalid",
		"key=k1;a=b":                  "body_invalid",
		strings.Repeat("key=k1&", 10): "key_invalid",
	} {
		call := bodyCall("/key", formType, body)
		got, err := call.sentKey()
		if err == nil {
			err = call.unread
		}
		var refusal *Error
		if errors.As(err, &refusal) {
			got = string(refusal.Code)
		}
		if got != want {
			t.Errorf("%s: %s, %v; want %s", body, got, err, want)
		}
	}
}

// Decoders of forms look for a key that is not in the body, and in bodies that
// are no forms: nothing runs for it.
func TestFormKeyElsewhere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ query, contentType, body, want string }{
		"in the query":        {"key=k1", formType, "a=b", "key_invalid"},
		"in both":             {"key=k2", formType, "key=k1", "key_invalid"},
		"without a body":      {"%6bey=k1", "", "", "key_invalid"},
		"no media type":       {"", "", "key=k1", "body_invalid"},
		"another":             {"", "multipart/form-data; boundary=b", "key=k1", "body_invalid"},
		"one that begins so":  {"", formType + "-x", "key=k1", "body_invalid"},
		"another letter case": {"", "Application/X-WWW-Form-URLEncoded", "key=k1", "body_invalid"},
		"a charset":           {"", formType + " ; charset=utf-8", "key=k1", "k1"},
		"a query beside it":   {"a=b", formType, "key=k1", "k1"},
		"nothing":             {"a=b", "", "", ""},
	} {
		call := bodyCall("/key", formType, test.body)
		call.request.URL.RawQuery = test.query
		call.request.Header.Set("Content-Type", test.contentType)
		got, err := call.sentKey()
		if err == nil {
			err = call.unread
		}
		var refusal *Error
		if errors.As(err, &refusal) {
			got = string(refusal.Code)
		}
		if got != test.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, test.want)
		}
	}
}

// A server that goes by the Content-Type decodes no JSON from a body that is not
// sent as such: nothing runs for it.
func TestBodyKeyOfJSONSentAsAnother(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{formType, "application/xml", "application/json+xml", "multipart/form-data; boundary=b"} {
		call := bodyCall("/key", "application/json", `{"key":"k1"}`)
		call.request.Header.Set("Content-Type", contentType)
		if key, err := call.sentKey(); key != "" || err != nil || call.unread == nil {
			t.Errorf("%s: %q, %v, %v", contentType, key, err, call.unread)
		}
	}
}

// A body of a media type that the document does not declare, which no handler
// is given, holds no key.
func TestBodyKeyOfAnotherMediaType(t *testing.T) {
	t.Parallel()
	call := bodyCall("/key", "application/json", `{"key":"k1"}`)
	call.op.Bodies = append(call.op.Bodies, Body{MediaType: formType})
	if key, err := call.sentKey(); key != "k1" || err != nil {
		t.Errorf("JSON: %q, %v", key, err)
	}
	call.request.Header.Set("Content-Type", "Application/JSON")
	if key, err := call.sentKey(); key != "" || err != nil || call.unread == nil { // strict servers decode none, and Call.Is says it is JSON
		t.Errorf("JSON in capitals: %q, %v, %v", key, err, call.unread)
	}
	call.unread = nil
	call.request.Header.Set("Content-Type", "text/plain")
	call.body = []byte("key=k1")
	if key, err := call.sentKey(); key != "" || err != nil || call.unread != nil {
		t.Errorf("text: %q, %v, %v", key, err, call.unread)
	}
}

// The key's own member is no part of a fingerprint, but for the bytes of a raw
// one. All else in the body is.
func TestFingerprintWithoutBodyKey(t *testing.T) {
	t.Parallel()
	const upper = "8E03978E-40D5-43DD-BC93-6894A57F9324"
	same := func(rule FingerprintRule, pointer, mediaType, a, b string) bool {
		of := func(body string) Fingerprint {
			call := bodyCall(pointer, mediaType, body)
			call.op.Fingerprint = rule
			f, err := call.fingerprint(fingerprintVersion)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		return of(a) == of(b)
	}
	for _, test := range []struct {
		rule                     FingerprintRule
		pointer, mediaType, a, b string
		want                     bool
	}{
		{FingerprintRule{}, "/key", "application/json", `{"key":"` + someUUIDv4 + `","n":1}`, `{"n":1, "key":"` + upper + `"}`, true},
		{FingerprintRule{}, "/key", "application/json", `{"key":"k","n":1}`, `{"key":"k","n":2}`, false},
		{FingerprintRule{}, "/m/key", "application/json", `{"m":{"key":"k","n":1}}`, `{"m":{"key":"K","n":1}}`, true},
		{FingerprintRule{}, "/m/key", "application/json", `{"m":{"key":"k"},"key":1}`, `{"m":{"key":"k"},"key":2}`, false},
		{FingerprintRule{Exclude: []string{"/t"}}, "/key", "application/json", `{"key":"k","t":1,"n":1}`, `{"key":"K","t":2,"n":1}`, true},
		{FingerprintRule{Exclude: []string{"/t"}}, "/key", "application/json", `{"key":"k","t":1,"n":1}`, `{"key":"k","t":1,"n":2}`, false},
		{FingerprintRule{Include: []string{"/n"}}, "/key", "application/json", `{"key":"k","n":1}`, `{"key":"K","n":1}`, true},
		{FingerprintRule{Raw: true}, "/key", "application/json", `{"key":"k"}`, `{"key":"K"}`, false},
		{FingerprintRule{}, "/key", formType, "key=k&n=1", "key=%4B&n=1", true},
		{FingerprintRule{}, "/key", formType, "key=k&n=1", "key=k&n=2", false},
		{FingerprintRule{Raw: true}, "/key", formType, "key=k", "key=K", false},
	} {
		if got := same(test.rule, test.pointer, test.mediaType, test.a, test.b); got != test.want {
			t.Errorf("%+v: %s and %s: same %t", test.rule, test.a, test.b, got)
		}
	}
}

// Keys of a body are spelt as they stand.
func TestBodyKeySpelling(t *testing.T) {
	t.Parallel()
	rule := KeyRule{Body: "/key"}
	for _, s := range []string{`"k"`, `a,b`, `"`, `k`} {
		if key, err := parseKey(rule, s); key != s || err != nil || spellKey(rule, key) != s {
			t.Errorf("%q: %q, %v, spelt %q", s, key, err, spellKey(rule, key))
		}
	}
}

// FuzzBodyKey compares what is read from a body with what encoding/json decodes
// from it: a key that is found is the one that a handler sees, and one that a
// handler sees is found or refused.
func FuzzBodyKey(f *testing.F) {
	for _, body := range []string{
		`{"meta":{"key":"k1"}}`, `{"Meta":{"KEY":"k1"}}`, `{"meta":{"key":"k1","key":"k2"}}`, `{"meta":null,"meta":{"key":"a"}}`,
		`{"meta":{"\u212aey":"k1"}}`, `{"meta":{"key":null}}`, `{"meta":[{"key":"k"}]}`, `{"meta":{"key":"k1"}} x`, `null`, ``, `{`,
		"{\"meta\":{\"key\xff\":\"k1\"}}", `{"meta":{"key":"k1"},"x":[[[]]]}`, `{"meta":{"key":{"a":"b"}}}`, `{"meta":"\ud800"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		call := bodyCall("/meta/key", "application/json", string(body))
		key, err := call.sentKey()
		var decoded struct {
			Meta struct {
				Key string `json:"key"`
			} `json:"meta"`
		}
		valid := isBlank(body) || json.Valid(body)
		if valid != (call.unread == nil) {
			t.Fatalf("valid %t, unread %v", valid, call.unread)
		}
		if decodeErr := json.Unmarshal(body, &decoded); decodeErr != nil {
			if key != "" {
				t.Fatalf("key %q of a body that does not decode: %v", key, decodeErr)
			}
			return
		}
		switch {
		case err == nil && key != decoded.Meta.Key:
			t.Fatalf("key %q, decoded %q", key, decoded.Meta.Key)
		case err != nil && !errors.Is(err, ErrKeyInvalid):
			t.Fatal(err)
		}
	})
}

// BenchmarkBodyKey reads keys from an ordinary body, and looks for one in those
// that make it hard: as large as they may be, they cost in proportion.
func BenchmarkBodyKey(b *testing.B) {
	const size = 1 << 20
	for _, test := range []struct{ name, body string }{
		{"ordinary", `{"meta":{"key":"` + someUUIDv7 + `","note":"n"},"amount":{"value":12,"currency":"EUR"},"lines":[1,2,3]}`},
		{"last", `{"text":"` + strings.Repeat("x", size) + `","meta":{"key":"k1"}}`},
		{"many", `{` + strings.Repeat(`"meta":{},`, size/10) + `"meta":{"key":"k1"}}`},
		{"many within", `{"meta":{` + strings.Repeat(`"KEY":1,`, size/8) + `"key":"k1"}}`},
		{"elements", `{"meta":[` + strings.Repeat(`{},`, size/3) + `0]}`},
		{"deep", `{"meta":` + strings.Repeat(`{"meta":`, maxJSONDepth-2) + `0` + strings.Repeat(`}`, maxJSONDepth-1)},
	} {
		b.Run(strings.ReplaceAll(test.name, " ", "-"), func(b *testing.B) {
			call := bodyCall("/meta/key", "application/json", test.body)
			b.SetBytes(int64(len(test.body)))
			b.ReportAllocs()
			for b.Loop() {
				_, _ = call.sentKey()
			}
			if call.unread != nil {
				b.Fatal(call.unread)
			}
		})
	}
}
