package answercodec

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// What is decompressed is exactly what was compressed: a stream that is longer or
// shorter than it says, or is followed by something, is damaged.
func TestInflate(t *testing.T) {
	t.Parallel()
	d := &deflater{limit: 4 << 20}
	b := bytes.Repeat([]byte("paid "), 1000)
	small, ok := d.deflate(b)
	if !ok {
		t.Fatal("not compressed")
	}
	_, n := binary.Uvarint(small)
	sized := func(size int) []byte { return append(binary.AppendUvarint(nil, uint64(size)), small[n:]...) }
	for name, c := range map[string]struct {
		data []byte
		ok   bool
	}{
		"as it was":  {sized(len(b)), true},
		"longer":     {sized(len(b) - 1), false},
		"shorter":    {sized(len(b) + 1), false},
		"followed":   {append(sized(len(b)), 0), false},
		"cut":        {small[:len(small)-1], false},
		"empty":      {nil, false},
		"no stream":  {small[:n], false},
		"over limit": {sized(4<<20 + 1), false},
	} {
		got, err := d.inflate(c.data)
		if (err == nil) != c.ok || c.ok && !bytes.Equal(got, b) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}
