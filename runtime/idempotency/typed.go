package idempotency

import (
	"bytes"
	"crypto/rand"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
)

// OpType is the type that generated code declares for one marked operation.
// It tells the keys of one operation from those of another.
type OpType interface {
	// Operation returns what the spec says of the operation. It never returns
	// nil and works on the zero value.
	Operation() *Operation
}

// Key is an idempotency key of the operation Op. Keys of two operations are
// different types and do not convert into each other. Keys are comparable.
//
// The zero Key is no key. Encoding it as text, JSON or a column fails, and a
// server refuses the empty header field that its String makes.
type Key[Op OpType] struct {
	_ [0]Op // in the underlying type, so that no conversion gets around Op
	v string
}

// NewKey returns a new random key: a UUIDv7, or 26 letters and digits for an
// operation whose keys hold less than the 36 bytes of a UUID. Make one for
// each thing that is to happen once, keep it, and send it with every retry.
// It panics for an operation whose keys hold less than 26 bytes, which is too
// little to be unique by chance.
func NewKey[Op OpType]() Key[Op] {
	rule := operationOf[Op]().Key
	if rule.Format != KeyOpaque || rule.maxLength() >= 36 {
		return keyFrom[Op](newUUIDv7())
	}
	key := rand.Text()
	if len(key) > rule.maxLength() {
		panic(fmt.Sprintf("idempotency: a key of %s holds %d bytes, a random one needs %d: use ParseKey with a key of your own", operationOf[Op]().ID, rule.maxLength(), len(key)))
	}
	return keyFrom[Op](key)
}

// ParseKey returns the key that s names, bare or as an RFC 9651 String; for an
// operation whose keys are in the body, s is the key as it stands. It returns
// an [*Error] that matches [ErrKeyInvalid] for anything that the operation does
// not take as a key.
func ParseKey[Op OpType](s string) (Key[Op], error) {
	v, err := parseKey(operationOf[Op]().Key, s)
	if err != nil {
		return Key[Op]{}, err
	}
	return keyFrom[Op](v), nil
}

// MustParseKey is [ParseKey] for keys that are constants. It panics where
// ParseKey returns an error.
func MustParseKey[Op OpType](s string) Key[Op] {
	k, err := ParseKey[Op](s)
	if err != nil {
		panic(err)
	}
	return k
}

// keyFrom wraps a key that has been checked.
func keyFrom[Op OpType](checked string) Key[Op] { return Key[Op]{v: checked} }

func operationOf[Op OpType]() *Operation {
	var op Op
	return op.Operation()
}

// String returns the key as it is sent: bare, or in a header as an RFC 9651
// String if it holds a quote or a comma. [ParseKey] reads it back. The zero Key
// is "".
func (k Key[Op]) String() string { return spellKey(operationOf[Op]().Key, k.v) }

// IsZero reports whether k is the zero Key, which is no key.
func (k Key[Op]) IsZero() bool { return k.v == "" }

// Equal reports whether k and other are the same key.
func (k Key[Op]) Equal(other Key[Op]) bool { return k.v == other.v }

// LogValue returns the key as a string.
func (k Key[Op]) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns the key as [Key.String] does. It returns an error for
// the zero Key.
func (k Key[Op]) MarshalText() ([]byte, error) {
	if k.IsZero() {
		return nil, errZeroKey[Op]()
	}
	return []byte(k.String()), nil
}

// UnmarshalText sets k to the key that text names, as [ParseKey] does. It
// leaves k alone and returns an error where ParseKey returns one.
func (k *Key[Op]) UnmarshalText(text []byte) error {
	parsed, err := ParseKey[Op](string(text))
	if err != nil {
		return err
	}
	*k = parsed
	return nil
}

// MarshalJSON returns the key as a JSON string. It returns an error for the
// zero Key.
func (k Key[Op]) MarshalJSON() ([]byte, error) {
	if k.IsZero() {
		return nil, errZeroKey[Op]()
	}
	return json.Marshal(k.String())
}

// UnmarshalJSON sets k to the key that a JSON string names. It returns an
// error for anything else, null included.
func (k *Key[Op]) UnmarshalJSON(data []byte) error {
	var s *string
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("idempotency: a key of %s is not a JSON string: %w", operationOf[Op]().ID, err)
	}
	if s == nil {
		return errZeroKey[Op]()
	}
	return k.UnmarshalText([]byte(*s))
}

// Value returns the key as a string for a database column, as
// [driver.Valuer] asks. It returns an error for the zero Key.
func (k Key[Op]) Value() (driver.Value, error) {
	if k.IsZero() {
		return nil, errZeroKey[Op]()
	}
	return k.String(), nil
}

// Scan sets k from a database column, as [database/sql.Scanner] asks. It
// returns an error for NULL, for the empty string, for a type other than
// string and []byte, and for what [ParseKey] refuses.
func (k *Key[Op]) Scan(src any) error {
	switch src := src.(type) {
	case string:
		return k.UnmarshalText([]byte(src))
	case []byte:
		return k.UnmarshalText(src)
	case nil:
		return errZeroKey[Op]()
	}
	return fmt.Errorf("idempotency: a key of %s cannot be read from a column of type %T", operationOf[Op]().ID, src)
}

func errZeroKey[Op OpType]() error {
	return &Error{Code: CodeKeyMissing, Detail: "a request to " + operationOf[Op]().ID + " has no idempotency key"}
}

// Sealed holds the input of a request together with the promise that a key was
// given for it, or that none was meant to be: only [Seal] and [SealUnprotected]
// fill it. It does not compare with ==; use Equal. Generated request types use
// it.
type Sealed[In any] struct {
	_ [0]func() // == would compare addresses

	// Nil if an input was never given, which is not an empty one. The second
	// pointer keeps the input out of what package fmt prints: that follows one,
	// where a verb does not fit pointers, and calls no methods on the unexported
	// field that this is part of.
	in **In

	unprotected bool
}

// Seal wraps the input of a request that is sent under key. The input is
// copied as by assignment: it shares what its slices, maps and pointers refer
// to, which must not change from then on.
func Seal[Op OpType, In any](_ Key[Op], in In) Sealed[In] {
	p := &in
	return Sealed[In]{in: &p}
}

// SealUnprotected wraps the input of a request that is meant to be sent
// without a key, to an operation that allows it. A key that got lost does not
// make such a request.
func SealUnprotected[In any](in In) Sealed[In] {
	p := &in
	return Sealed[In]{in: &p, unprotected: true}
}

// Unprotected reports whether [SealUnprotected] made s.
func (s Sealed[In]) Unprotected() bool { return s.unprotected }

// Value returns the input, and the zero In where [Sealed.IsZero].
func (s Sealed[In]) Value() In {
	if s.in == nil {
		var zero In
		return zero
	}
	return **s.in
}

// IsZero reports whether s was never filled: the request around it was written
// as a literal, or read by a decoder that passes over unexported fields, and
// what it asks for is lost. Such a request must not be sent.
func (s Sealed[In]) IsZero() bool { return s.in == nil }

// Equal reports whether both inputs are deeply equal, as [reflect.DeepEqual]
// has it. No input differs from an empty one.
func (s Sealed[In]) Equal(other Sealed[In]) bool { return reflect.DeepEqual(s.in, other.in) }

// LogRequest returns what a log shows of a request: its operation and its
// key, and nothing of its input. Generated request types use it.
func LogRequest[Op OpType](key Key[Op]) slog.Value {
	return slog.GroupValue(
		slog.String("operation", operationOf[Op]().ID),
		slog.String("idempotency_key", key.String()),
	)
}

// envelope is the form of a request that is kept outside the program.
type envelope[Op OpType, In any] struct {
	Operation string  `json:"operation"`
	Key       Key[Op] `json:"idempotency_key"`
	Input     *In     `json:"input"`
}

// MarshalRequest encodes a request as a JSON object with the members
// operation, idempotency_key and input, so that it can be kept before it is
// sent and repeated after a crash. It returns an error for the zero Key, for a
// request that no constructor made, and for an input that [UnmarshalRequest]
// would refuse or read as another one: what cannot be repeated is not kept.
// Generated request types use it.
func MarshalRequest[Op OpType, In any](key Key[Op], in Sealed[In]) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("idempotency: request to %s cannot be stored: %w", operationOf[Op]().ID, err)
	}
	switch {
	case key.IsZero():
		return fail(errZeroKey[Op]())
	case in.IsZero():
		return fail(errors.New("it holds no input: make it with its constructor"))
	}
	data, err := json.Marshal(envelope[Op, In]{operationOf[Op]().ID, key, *in.in})
	if err != nil {
		return fail(err)
	}
	_, again, err := UnmarshalRequest[Op, In](data)
	if err != nil {
		return fail(err)
	}
	restored, err := json.Marshal(envelope[Op, In]{operationOf[Op]().ID, key, &again})
	if err != nil {
		return fail(err)
	}
	if !bytes.Equal(restored, data) {
		return fail(errors.New("its input changes when it is read back from JSON"))
	}
	return data, nil
}

// UnmarshalRequest decodes what [MarshalRequest] has encoded. It returns an
// error for a request of another operation, for one without a key or without
// an input, for members that it does not know, be they in the input, for a
// member of the object that stands twice, and for anything after it: a request
// that cannot be read whole is not sent. Numbers in fields of type any come
// back as [json.Number], which keeps all their digits. Generated request types
// use it.
func UnmarshalRequest[Op OpType, In any](data []byte) (Key[Op], In, error) {
	var zero In
	id := operationOf[Op]().ID
	fail := func(err error) (Key[Op], In, error) {
		return Key[Op]{}, zero, fmt.Errorf("idempotency: stored request to %s: %w", id, err)
	}
	// The operation comes first: another operation's key and input would fail
	// for reasons that say less.
	var head struct {
		Operation string `json:"operation"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fail(err)
	}
	if head.Operation != id {
		return fail(fmt.Errorf("it belongs to operation %q", head.Operation))
	}
	// Member by member: encoding/json takes a name in any letter case, and the
	// last of several.
	var key Key[Op]
	var in *In
	members := map[string]any{"operation": &head.Operation, "idempotency_key": &key, "input": &in}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	d.UseNumber()
	if _, err := d.Token(); err != nil {
		return fail(err)
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return fail(err)
		}
		name, _ := token.(string)
		member, wanted := members[name]
		if !wanted {
			return fail(fmt.Errorf("its member %q is unknown, or stands twice", name))
		}
		delete(members, name)
		if err := d.Decode(member); err != nil {
			return fail(err)
		}
	}
	switch {
	case key.IsZero():
		return fail(errZeroKey[Op]())
	case in == nil:
		return fail(errors.New("it has no input"))
	}
	return key, *in, nil
}
