package answercodec

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// minCompressed is the size, in bytes, from which on an answer is compressed.
const minCompressed = 1024

// deflater compresses and decompresses. What it needs for that is large, and used
// again.
type deflater struct {
	limit            int
	writers, readers sync.Pool
}

// deflate returns the size of b and b compressed, or false if that is not worth
// it or b is larger than the limit.
func (d *deflater) deflate(b []byte) ([]byte, bool) {
	if len(b) < minCompressed || len(b) > d.limit {
		return nil, false
	}
	out := bytes.NewBuffer(binary.AppendUvarint(make([]byte, 0, len(b)/2), uint64(len(b))))
	w, ok := d.writers.Get().(*flate.Writer)
	if ok {
		w.Reset(out)
	} else {
		w, _ = flate.NewWriter(out, level) // fails for other levels alone
	}
	defer d.writers.Put(w)
	_, _ = w.Write(b) // a buffer takes everything
	_ = w.Close()
	return out.Bytes(), out.Len() <= len(b)-len(b)/8
}

// level is the fastest: of a JSON list of 8 KiB it leaves a fifth, as the default
// does, in half of the time.
const level = flate.BestSpeed

// inflate returns what deflate was given. It reads no more than the limit.
func (d *deflater) inflate(b []byte) ([]byte, error) {
	size, n := binary.Uvarint(b)
	switch {
	case n <= 0:
		return nil, errDeflated
	case size > uint64(d.limit):
		return nil, fmt.Errorf("answercodec: decompressed it would have %d bytes, and the limit is %d (WithLimit)", size, d.limit)
	}
	in := bytes.NewReader(b[n:])
	r, ok := d.readers.Get().(io.Reader)
	if !ok {
		r = flate.NewReader(in)
	} else if err := r.(flate.Resetter).Reset(in, nil); err != nil { //nolint:forcetypeassert // all are flate's
		return nil, err
	}
	defer d.readers.Put(r)
	out := make([]byte, size)
	if _, err := io.ReadFull(r, out); err != nil {
		return nil, errDeflated
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF || in.Len() != 0 {
		return nil, errDeflated
	}
	return out, nil
}

var errDeflated = errors.New("answercodec: the compressed answer is damaged")
