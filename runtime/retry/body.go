package retry

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Stream marks a request body that is a stream. It returns nil for nil. [Send]
// reads it from where it stands, once for each attempt, and never moves it: it
// can be a *bytes.Reader, *bytes.Buffer or *strings.Reader, or an
// [io.ReaderAt] that is an [io.Seeker], as *os.File is. Another one cannot be
// read again, and the call is refused. It is for generated code.
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
	open, size, err := s.open()
	if err != nil {
		return err
	}
	req.ContentLength = size
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(open()), nil }
	if size == 0 {
		// With a length of 0 and a body, net/http would send it chunked.
		req.GetBody = func() (io.ReadCloser, error) { return http.NoBody, nil }
	}
	return nil
}

// open returns what gives readers of the rest of the stream, and its length.
func (s *stream) open() (reader func() io.Reader, size int64, err error) {
	switch source := s.source.(type) {
	case *bytes.Buffer:
		rest := source.Bytes()
		return func() io.Reader { return bytes.NewReader(rest) }, int64(len(rest)), nil
	case *bytes.Reader:
		rest := *source
		return func() io.Reader { r := rest; return &r }, int64(source.Len()), nil
	case *strings.Reader:
		rest := *source
		return func() io.Reader { r := rest; return &r }, int64(source.Len()), nil
	}
	at, ok := s.source.(io.ReaderAt)
	seeker, seeks := s.source.(io.Seeker)
	if !ok || !seeks {
		return nil, 0, fmt.Errorf("the body, a %T, cannot be read again for a second attempt: use a *bytes.Reader, a *strings.Reader or an *os.File", s.source)
	}
	start, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil, 0, fmt.Errorf("the body, a %T, cannot be read again for a second attempt: %w", s.source, err)
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = seeker.Seek(start, io.SeekStart)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("the body, a %T, cannot be read again for a second attempt: %w", s.source, err)
	}
	size = max(end-start, 0)
	return func() io.Reader { return io.NewSectionReader(at, start, size) }, size, nil
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
