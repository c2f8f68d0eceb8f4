package idempotency_test

import (
	"bytes"
	"io"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// A clone is equal to its original, and stays what it was when the memory of
// the original's strings is used again.
func TestClone(t *testing.T) {
	t.Parallel()
	type text string
	type nested struct {
		Text  *text
		Any   any
		Texts []string
	}
	type input struct {
		ID     string
		Params nested
		Body   *map[text][]nested
		Array  [2]*string
		Bytes  []byte
		Time   time.Time
		UUID   [16]byte
		Reader io.Reader
		Nil    struct {
			Pointer *string
			Slice   []string
			Map     map[string]string
			Any     any
		}
		private *int
	}
	number := 1
	build := func(s string) input {
		named := text(s)
		return input{
			ID:      s,
			Params:  nested{Text: &named, Any: map[string]any{s: []any{s, 1.5, nil}}, Texts: []string{s, ""}},
			Body:    &map[text][]nested{named: {{Any: &s}}, "other": {}},
			Array:   [2]*string{&s, nil},
			Bytes:   []byte{1, 2},
			Time:    time.Unix(1, 0),
			Reader:  bytes.NewReader([]byte("stream")),
			private: &number,
		}
	}
	buffer := []byte("first")
	original := build(unsafe.String(&buffer[0], len(buffer)))
	clone := idempotency.Clone(original)
	copy(buffer, "other")
	original.Bytes[0] = 9
	if want := build("first"); !reflect.DeepEqual(clone, want) {
		t.Errorf("%+v, want %+v", clone, want)
	}
}
