package retry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"reflect"
)

// Stream marks a request body that is a stream. It returns nil for nil. [Send]
// reads it from where it stands, once for each attempt, and does not move it:
// it is a *bytes.Reader, *strings.Reader, *bytes.Buffer, *os.File or another
// [io.ReaderAt] that is an [io.Seeker]. Any other cannot be read again, and the
// call is refused. It is for generated code.
func Stream(body io.Reader) io.Reader {
	if body == nil {
		return nil
	}
	return &stream{body}
}

// stream is an io.ReadCloser, so that http.NewRequest keeps it as it is.
type stream struct{ source io.Reader }

func (*stream) Read([]byte) (int, error) { return 0, errNotReread }
func (*stream) Close() error             { return nil }

var errNotReread = errors.New("the body is read through GetBody alone")

// setGetBody gives a request a GetBody, and the length of its body.
func setGetBody(req *http.Request) error {
	s, ok := req.Body.(*stream)
	switch {
	case !ok && (req.Body == nil || req.Body == http.NoBody || req.GetBody != nil):
		return nil
	case !ok:
		return fmt.Errorf("the body, a %T, cannot be read again for a second attempt", req.Body)
	}
	rest, err := s.rest()
	if err != nil {
		return fmt.Errorf("the body, a %T, cannot be read again for a second attempt: %w", s.source, err)
	}
	size := rest.Size()
	req.ContentLength = size
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(rest, 0, size)), nil }
	if size == 0 {
		// With a length of 0 and a body, net/http would send it chunked.
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	}
	return nil
}

// rest returns what is left of the stream.
func (s *stream) rest() (*io.SectionReader, error) {
	if v := reflect.ValueOf(s.source); v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("it is nil")
	}
	switch source := s.source.(type) {
	case *bytes.Buffer:
		return section(bytes.NewReader(source.Bytes()), 0, int64(source.Len())), nil
	case memory:
		return section(source, source.Size()-int64(source.Len()), source.Size()), nil
	case seekable:
		start, end, err := extent(source)
		return section(source, start, end), err
	}
	return nil, errors.New("use a *bytes.Reader, a *strings.Reader or an *os.File")
}

func section(r io.ReaderAt, start, end int64) *io.SectionReader {
	return io.NewSectionReader(r, start, max(end-start, 0))
}

// memory is a *bytes.Reader or a *strings.Reader. Calls can share one.
type memory interface {
	io.ReaderAt
	Len() int
	Size() int64
}

type seekable interface {
	io.ReaderAt
	io.Seeker
}

// extent returns where a source stands and where it ends. A file, which calls
// can share as well, is not moved for it.
func extent(source seekable) (start, end int64, err error) {
	if start, err = source.Seek(0, io.SeekCurrent); err != nil {
		return 0, 0, err
	}
	if file, ok := source.(fs.File); ok {
		info, err := file.Stat()
		if err != nil {
			return 0, 0, err
		}
		if !info.Mode().IsRegular() {
			return 0, 0, errors.New("it is no regular file")
		}
		return start, info.Size(), nil
	}
	if end, err = source.Seek(0, io.SeekEnd); err != nil {
		return 0, 0, err
	}
	_, err = source.Seek(start, io.SeekStart)
	return start, end, err
}

// OneBody returns an error unless exactly one of the bodies of an input is
// set; none is fine where the body is not required. It is for generated code.
func OneBody(required bool, set ...bool) error {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	switch {
	case n > 1:
		return fmt.Errorf("the input has %d bodies; set the one that is to be sent", n)
	case n == 0 && required:
		return errors.New("the input has no body; set one")
	}
	return nil
}
