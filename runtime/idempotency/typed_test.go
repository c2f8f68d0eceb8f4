package idempotency

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

type (
	payOp    struct{}
	refundOp struct{}
	shortOp  struct{}
	tinyOp   struct{}
)

var (
	payOperation    = &Operation{ID: "createPayment", Method: "POST", Path: "/payments"}
	refundOperation = &Operation{ID: "createRefund", Method: "POST", Path: "/refunds", Key: KeyRule{Format: KeyUUIDv7}}
	shortOperation  = &Operation{ID: "short", Key: KeyRule{MaxLength: 32}}
	tinyOperation   = &Operation{ID: "tiny", Key: KeyRule{MaxLength: 25}}
)

func (payOp) Operation() *Operation    { return payOperation }
func (refundOp) Operation() *Operation { return refundOperation }
func (shortOp) Operation() *Operation  { return shortOperation }
func (tinyOp) Operation() *Operation   { return tinyOperation }

var (
	_ fmt.Stringer             = Key[payOp]{}
	_ slog.LogValuer           = Key[payOp]{}
	_ encoding.TextMarshaler   = Key[payOp]{}
	_ encoding.TextUnmarshaler = (*Key[payOp])(nil)
	_ json.Marshaler           = Key[payOp]{}
	_ json.Unmarshaler         = (*Key[payOp])(nil)
	_ driver.Valuer            = Key[payOp]{}
	_ sql.Scanner              = (*Key[payOp])(nil)
)

func TestNewKey(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMilli()
	key := NewKey[refundOp]()
	if ms, ok := uuidv7Time(key.String()); !ok || ms < before || ms > time.Now().UnixMilli() {
		t.Errorf("NewKey() = %v", key)
	}
	if other := NewKey[refundOp](); key == other || key.Equal(other) {
		t.Errorf("NewKey() = %v twice", key)
	}
}

// A new key always satisfies its operation's own rule, or is not made.
func TestNewKeyFitsItsOperation(t *testing.T) {
	t.Parallel()
	key := NewKey[shortOp]()
	if _, err := ParseKey[shortOp](key.String()); err != nil || len(key.String()) < 26 {
		t.Errorf("NewKey() = %v, which its operation refuses: %v", key, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("NewKey makes a key that is too short to be unique")
		}
	}()
	NewKey[tinyOp]()
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	bare, err := ParseKey[payOp]("k1")
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := ParseKey[payOp](`"k1"`)
	if err != nil || bare != quoted || !bare.Equal(quoted) || bare.String() != "k1" {
		t.Errorf("bare %v, quoted %v, %v", bare, quoted, err)
	}
	if _, err := ParseKey[refundOp]("k1"); !errors.Is(err, ErrKeyInvalid) {
		t.Errorf("another operation's rule is not applied: %v", err)
	}
	upper, err := ParseKey[refundOp](strings.ToUpper(someUUIDv7))
	if err != nil || upper.String() != someUUIDv7 {
		t.Errorf("ParseKey = %v, %v", upper, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("MustParseKey accepts an empty key")
		}
	}()
	MustParseKey[payOp]("")
}

// Whatever form a key leaves the program in, it comes back as the same key.
func TestKeySurvivesEveryEncoding(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"k1", someUUIDv7, `a\b`, `"a,b"`, `"say\"hi\""`, "<&>"} {
		key := MustParseKey[payOp](s)
		text, err := key.MarshalText()
		var fromText Key[payOp]
		if err != nil || fromText.UnmarshalText(text) != nil || fromText != key {
			t.Errorf("%s: text %q, %v, %v", key, text, err, fromText)
		}
		data, err := json.Marshal(map[string]Key[payOp]{"key": key})
		var fromJSON map[string]Key[payOp]
		if err != nil || json.Unmarshal(data, &fromJSON) != nil || fromJSON["key"] != key {
			t.Errorf("%s: JSON %s, %v, %v", key, data, err, fromJSON)
		}
		value, err := key.Value()
		var fromString, fromBytes Key[payOp]
		if err != nil || fromString.Scan(value) != nil || fromString != key || fromBytes.Scan([]byte(value.(string))) != nil || fromBytes != key {
			t.Errorf("%s: value %q, %v, %v, %v", key, value, err, fromString, fromBytes)
		}
		if again, err := ParseKey[payOp](key.String()); err != nil || again != key {
			t.Errorf("%s: ParseKey(String()) = %v, %v", key, again, err)
		}
	}
}

// Covers PRO-04: no zero key crosses a boundary, in either direction.
func TestZeroKeyCrossesNoBoundary(t *testing.T) {
	t.Parallel()
	var zero Key[payOp]
	if !zero.IsZero() || zero.String() != "" || !zero.Equal(Key[payOp]{}) {
		t.Errorf("zero key is %v", zero)
	}
	missing := &Error{Code: CodeKeyMissing}
	if _, err := zero.MarshalText(); !errors.Is(err, missing) {
		t.Errorf("MarshalText: %v", err)
	}
	if _, err := json.Marshal(zero); !errors.Is(err, missing) {
		t.Errorf("MarshalJSON: %v", err)
	}
	if _, err := zero.Value(); !errors.Is(err, missing) {
		t.Errorf("Value: %v", err)
	}
	key := MustParseKey[payOp]("k1")
	for name, err := range map[string]error{
		"UnmarshalText empty":   key.UnmarshalText(nil),
		"UnmarshalText blank":   key.UnmarshalText([]byte(" ")),
		"UnmarshalJSON null":    json.Unmarshal([]byte("null"), &key),
		"UnmarshalJSON empty":   json.Unmarshal([]byte(`""`), &key),
		"UnmarshalJSON number":  json.Unmarshal([]byte("1"), &key),
		"UnmarshalJSON damaged": key.UnmarshalJSON([]byte(`"`)),
		"Scan NULL":             key.Scan(nil),
		"Scan empty":            key.Scan(""),
		"Scan empty bytes":      key.Scan([]byte{}),
		"Scan number":           key.Scan(int64(1)),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if key.String() != "k1" {
		t.Errorf("a refused value changes the key to %v", key)
	}
}

type payInput struct {
	Account string
	Body    struct {
		Amount int64 `json:"amount"`
	}
}

func newPayInput(amount int64) (in payInput) {
	in.Account, in.Body.Amount = "a", amount
	return in
}

func TestSealed(t *testing.T) {
	t.Parallel()
	key := NewKey[payOp]()
	sealed := Seal(key, newPayInput(5))
	if sealed.Value() != newPayInput(5) || !sealed.Equal(Seal(key, newPayInput(5))) || sealed.Equal(Seal(key, newPayInput(6))) {
		t.Errorf("Sealed = %v", sealed)
	}
}

func TestRequestSurvivesACrash(t *testing.T) {
	t.Parallel()
	key := MustParseKey[payOp]("k1")
	data, err := MarshalRequest(key, Seal(key, newPayInput(5)))
	if want := `{"operation":"createPayment","idempotency_key":"k1","input":{"Account":"a","Body":{"amount":5}}}`; string(data) != want || err != nil {
		t.Errorf("MarshalRequest = %s, %v; want %s", data, err, want)
	}
	again, in, err := UnmarshalRequest[payOp, payInput](data)
	if again != key || in != newPayInput(5) || err != nil {
		t.Errorf("UnmarshalRequest = %v, %v, %v", again, in, err)
	}
	if _, err := MarshalRequest(Key[payOp]{}, Seal(key, payInput{})); !errors.Is(err, &Error{Code: CodeKeyMissing}) {
		t.Errorf("a request without a key is stored: %v", err)
	}
}

func TestUnmarshalRequestRefuses(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"no key":                  `{"operation":"createPayment","input":{}}`,
		"null key":                `{"operation":"createPayment","idempotency_key":null,"input":{}}`,
		"empty key":               `{"operation":"createPayment","idempotency_key":"","input":{}}`,
		"numeric key":             `{"operation":"createPayment","idempotency_key":1,"input":{}}`,
		"no operation":            `{"idempotency_key":"k1","input":{}}`,
		"another operation":       `{"operation":"createRefund","idempotency_key":"` + someUUIDv7 + `","input":{}}`,
		"no input":                `{"operation":"createPayment","idempotency_key":"k1"}`,
		"null input":              `{"operation":"createPayment","idempotency_key":"k1","input":null}`,
		"unknown member":          `{"operation":"createPayment","idempotency_key":"k1","input":{},"more":1}`,
		"unknown member of input": `{"operation":"createPayment","idempotency_key":"k1","input":{"Currency":"EUR"}}`,
		"wrong type in input":     `{"operation":"createPayment","idempotency_key":"k1","input":{"Account":1}}`,
		"something after it":      `{"operation":"createPayment","idempotency_key":"k1","input":{}}{}`,
		"not an object":           `"createPayment"`,
		"cut off":                 `{"operation":"createPayment","idempotency_key":"k1"`,
		"empty":                   ``,
	} {
		key, in, err := UnmarshalRequest[payOp, payInput]([]byte(data))
		if err == nil || !key.IsZero() || in != (payInput{}) {
			t.Errorf("%s: %v, %v, %v", name, key, in, err)
		}
	}
}

func TestLogsShowNoPayload(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	key := MustParseKey[payOp]("k1")
	slog.New(slog.NewTextHandler(&out, nil)).Info("sent", "request", LogRequest(key), "key", key, "zero", Key[payOp]{})
	for _, want := range []string{"request.operation=createPayment", "request.idempotency_key=k1", " key=k1", `zero=""`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log %q lacks %q", out.String(), want)
		}
	}
}

func FuzzUnmarshalRequest(f *testing.F) {
	f.Add([]byte(`{"operation":"createPayment","idempotency_key":"k1","input":{"Account":"a","Body":{"amount":5}}}`))
	f.Add([]byte(`{"operation":"createPayment","idempotency_key":"\"a,b\"","input":{}}`))
	f.Add([]byte(`{"operation":"createRefund","idempotency_key":"k1","input":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, in, err := UnmarshalRequest[payOp, payInput](data)
		if err != nil {
			return
		}
		if key.IsZero() {
			t.Fatalf("%q: no key and no error", data)
		}
		stored, err := MarshalRequest(key, Seal(key, in))
		if err != nil {
			t.Fatal(err)
		}
		if againKey, againIn, err := UnmarshalRequest[payOp, payInput](stored); againKey != key || againIn != in || err != nil {
			t.Fatalf("%q: %v, %v, then %v, %v, %v", data, key, in, againKey, againIn, err)
		}
	})
}
