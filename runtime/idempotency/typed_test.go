package idempotency

import (
	"bytes"
	"database/sql"
	"database/sql/driver"
	"encoding"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"
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

// Maps, elements and attributes are written through the key's text.
func TestKeyInMapsAndXML(t *testing.T) {
	t.Parallel()
	type order struct {
		Attribute Key[payOp] `xml:"key,attr"`
		Element   Key[payOp]
	}
	key := MustParseKey[payOp](`"<a,b>"`)
	data, err := xml.Marshal(order{key, key})
	var again order
	if err != nil || xml.Unmarshal(data, &again) != nil || again != (order{key, key}) {
		t.Errorf("XML %s, %v, %v", data, err, again)
	}
	if data, err := xml.Marshal(order{Attribute: key}); err == nil {
		t.Errorf("XML without a key: %s", data)
	}
	if err := xml.Unmarshal([]byte(`<order key="k1"><Element></Element></order>`), &again); err == nil {
		t.Errorf("an empty element is read as %v", again)
	}

	data, err = json.Marshal(map[Key[payOp]]int{key: 1})
	var counts map[Key[payOp]]int
	if err != nil || json.Unmarshal(data, &counts) != nil || len(counts) != 1 || counts[key] != 1 {
		t.Errorf("JSON %s, %v, %v", data, err, counts)
	}
	if data, err := json.Marshal(map[Key[payOp]]int{{}: 1}); err == nil {
		t.Errorf("JSON with the zero key: %s", data)
	}
	if err := json.Unmarshal([]byte(`{"":1}`), &counts); err == nil {
		t.Errorf("an empty name is read as %v", counts)
	}
	var optional struct {
		Key Key[payOp] `json:"key,omitzero"`
	}
	if data, err := json.Marshal(optional); string(data) != "{}" || err != nil {
		t.Errorf("JSON without the zero key: %s, %v", data, err)
	}
}

// A gob holds exported fields alone: it would lose keys and inputs, so it is
// refused.
func TestGobIsRefused(t *testing.T) {
	t.Parallel()
	key := NewKey[payOp]()
	type request struct {
		IdempotencyKey Key[payOp]
		in             Sealed[payInput]
	}
	for _, v := range []any{key, Seal(key, newPayInput(5)), request{key, Seal(key, newPayInput(5))}} {
		var out bytes.Buffer
		if err := gob.NewEncoder(&out).Encode(v); err == nil {
			t.Errorf("%T is encoded as %q", v, out.String())
		}
	}
}

// Columns of a real database hold keys, and refuse none and empty ones in both
// directions. A column that may be NULL is read into a sql.Null.
//
// Covers PRO-04.
func TestKeyInColumns(t *testing.T) {
	t.Parallel()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "orders.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for _, statement := range []string{
		"CREATE TABLE orders (id TEXT PRIMARY KEY, key ANY)",
		"INSERT INTO orders VALUES ('null', NULL), ('empty', ''), ('blank', ' '), ('no bytes', x''), ('number', 17), ('bytes', x'6b31')",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []string{"k1", someUUIDv7, `"a,b"`, `"say\"hi\""`} {
		key := MustParseKey[payOp](s)
		if _, err := db.Exec("INSERT INTO orders VALUES (?, ?)", s, key); err != nil {
			t.Fatal(err)
		}
		var again Key[payOp]
		if err := db.QueryRow("SELECT key FROM orders WHERE key = ?", key).Scan(&again); err != nil || again != key {
			t.Errorf("%v comes back as %v, %v", key, again, err)
		}
	}
	if _, err := db.Exec("INSERT INTO orders VALUES ('zero', ?)", Key[payOp]{}); !errors.Is(err, &Error{Code: CodeKeyMissing}) {
		t.Errorf("the zero key is written: %v", err)
	}
	read := func(id string, into any) error {
		return db.QueryRow("SELECT key FROM orders WHERE id = ?", id).Scan(into)
	}
	for _, id := range []string{"null", "empty", "blank", "no bytes", "number"} {
		key := MustParseKey[payOp]("before")
		if err := read(id, &key); err == nil || key.String() != "before" {
			t.Errorf("%s is read as %v, %v", id, key, err)
		}
	}
	var key Key[payOp]
	if err := read("bytes", &key); err != nil || key.String() != "k1" {
		t.Errorf("bytes are read as %v, %v", key, err)
	}
	var optional sql.Null[Key[payOp]]
	if err := read("null", &optional); err != nil || optional.Valid {
		t.Errorf("NULL is read as %v, %v", optional, err)
	}
	if err := read("bytes", &optional); err != nil || !optional.Valid || optional.V != key {
		t.Errorf("a key that may be NULL is read as %v, %v", optional, err)
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
	var none Sealed[payInput]
	if sealed.IsZero() || !none.IsZero() || none.Value() != (payInput{}) || !none.Equal(Sealed[payInput]{}) {
		t.Errorf("Sealed without an input = %v", none)
	}
	if empty := Seal(key, payInput{}); empty.IsZero() || empty.Equal(none) {
		t.Error("no input is taken for an empty one")
	}
}

// Whoever prints a request, or what holds one, does not print what it asks for.
func TestSealedDoesNotPrint(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	key := MustParseKey[payOp]("k1")
	sealed := Seal(key, payInput{Account: secret})
	type request struct {
		IdempotencyKey Key[payOp]
		in             Sealed[payInput]
	}
	type job struct{ request *request }
	for _, v := range []any{sealed, &sealed, request{key, sealed}, &request{key, sealed}, []request{{key, sealed}}, map[string]request{"": {key, sealed}}, job{&request{key, sealed}}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, secret) || strings.Contains(s, fmt.Sprintf("%x", secret)) {
				t.Errorf("%s prints %T as %s", verb, v, s)
			}
		}
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
	if data, err := MarshalRequest(key, Sealed[payInput]{}); err == nil {
		t.Errorf("a request without an input is stored: %s", data)
	}
	if _, err := MarshalRequest(Key[payOp]{}, Seal(key, payInput{})); !errors.Is(err, &Error{Code: CodeKeyMissing}) {
		t.Errorf("a request without a key is stored: %v", err)
	}
}

// forgetful comes back from JSON as something else.
type forgetful struct{ in string }

func (f forgetful) MarshalJSON() ([]byte, error) { return json.Marshal(f.in) }
func (f *forgetful) UnmarshalJSON([]byte) error  { f.in = "forgotten"; return nil }

// writeOnly goes into JSON and does not come back.
type writeOnly struct{}

func (writeOnly) MarshalJSON() ([]byte, error) { return []byte(`"a"`), nil }

// What would not come back as it was is not stored.
func TestStoredRequestComesBackWhole(t *testing.T) {
	t.Parallel()
	key := MustParseKey[payOp]("k1")
	free := map[string]any{"large": int64(9007199254740993), "small": 0.1, "list": []any{1e21, nil, "<>"}}
	data, err := MarshalRequest(key, Seal(key, free))
	if err != nil {
		t.Fatal(err)
	}
	_, in, err := UnmarshalRequest[payOp, map[string]any](data)
	if err != nil || fmt.Sprint(in["large"]) != "9007199254740993" {
		t.Errorf("%s comes back as %v, %v", data, in, err)
	}
	if again, err := MarshalRequest(key, Seal(key, in)); !bytes.Equal(again, data) || err != nil {
		t.Errorf("%s is stored again as %s, %v", data, again, err)
	}
	for name, store := range map[string]func() ([]byte, error){
		"changes":        func() ([]byte, error) { return MarshalRequest(key, Seal(key, forgetful{"a"})) },
		"is not read":    func() ([]byte, error) { return MarshalRequest(key, Seal(key, writeOnly{})) },
		"is null":        func() ([]byte, error) { return MarshalRequest(key, Seal(key, (*payInput)(nil))) },
		"is not written": func() ([]byte, error) { return MarshalRequest(key, Seal(key, make(chan int))) },
	} {
		if data, err := store(); err == nil {
			t.Errorf("an input that %s is stored: %s", name, data)
		}
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
		"two keys":                `{"operation":"createPayment","idempotency_key":"k1","idempotency_key":"k2","input":{}}`,
		"the same key twice":      `{"operation":"createPayment","idempotency_key":"k1","idempotency_key":"k1","input":{}}`,
		"two inputs":              `{"operation":"createPayment","idempotency_key":"k1","input":{"Account":"a"},"input":{}}`,
		"two operations":          `{"operation":"createRefund","operation":"createPayment","idempotency_key":"k1","input":{}}`,
		"other letter case":       `{"operation":"createPayment","Idempotency_Key":"k1","input":{}}`,
		"both letter cases":       `{"operation":"createPayment","idempotency_key":"k1","input":{},"INPUT":{"Account":"a"}}`,
		"null":                    `null`,
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
