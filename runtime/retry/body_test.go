package retry_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// sendStream makes a call with a body that is a stream.
func sendStream(t *testing.T, doer retry.Doer, body io.Reader) error {
	t.Helper()
	k := idempotency.MustParseKey[chargeOp](key)
	_, err := retry.Send(t.Context(), retry.New(newClock().option()), k, idempotency.Seal(k, input{Stream: body}), exchange("http://server/charges", doer, nil))
	return err
}

// seeker is an io.ReaderAt and io.Seeker that does not know its length.
type seeker struct{ r *bytes.Reader }

func (s seeker) Read(p []byte) (int, error)                   { return s.r.Read(p) }
func (s seeker) ReadAt(p []byte, off int64) (int, error)      { return s.r.ReadAt(p, off) }
func (s seeker) Seek(offset int64, whence int) (int64, error) { return s.r.Seek(offset, whence) }

// Bodies are read from where they stand, whole for each attempt, with their
// length, and stay where they stand.
//
// Covers CLI-01.
func TestStream(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "body"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if _, err := file.WriteString("--body"); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]io.Reader{
		"bytes.Reader":     bytes.NewReader([]byte("--body")),
		"strings.Reader":   strings.NewReader("--body"),
		"bytes.Buffer":     bytes.NewBufferString("--body"),
		"io.SectionReader": io.NewSectionReader(strings.NewReader("<<--body>>"), 2, 6),
		"file":             file,
		"seeker":           seeker{bytes.NewReader([]byte("--body"))},
	} {
		for _, want := range []string{"--body", "body", ""} {
			if _, err := io.CopyN(io.Discard, body, int64(6-len(want))-position(t, body)); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and a second call
				s := serve(broken, reply(200))
				if err := sendStream(t, s, body); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				if want := slices.Repeat([]seen{{key, want, int64(len(want))}}, 2); !slices.Equal(s.requests, want) {
					t.Errorf("%s: %+v, want %+v", name, s.requests, want)
				}
			}
		}
	}
}

// position says how much of "--body" has been read.
func position(t *testing.T, body io.Reader) int64 {
	t.Helper()
	switch body := body.(type) {
	case interface{ Len() int }:
		return int64(6 - body.Len())
	case io.Seeker:
		at, err := body.Seek(0, io.SeekCurrent)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	t.Fatalf("%T", body)
	return 0
}

// Calls can share a file and a reader.
func TestSharedStream(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(path, []byte("shared"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	for _, body := range []io.Reader{file, strings.NewReader("shared"), bytes.NewReader([]byte("shared")), bytes.NewBufferString("shared")} {
		s := serve(broken, reply(200))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := sendStream(t, s, body); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if slices.ContainsFunc(s.requests, func(r seen) bool { return r.Body != "shared" }) {
			t.Errorf("%T: %+v", body, s.requests)
		}
	}
}

// A body that cannot be read again is refused before anything is sent.
func TestUnreadableStream(t *testing.T) {
	t.Parallel()
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pipe.Close(); w.Close() })
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	closed, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for want, body := range map[string]io.Reader{
		"the body, a *io.multiReader, cannot be":                                io.MultiReader(strings.NewReader("a")),
		"the body, a *os.File, cannot be":                                       pipe,
		"it is no regular file":                                                 dir,
		"file already closed":                                                   closed,
		"*bytes.Reader, cannot be read again for a second attempt: it is nil":   (*bytes.Reader)(nil),
		"*strings.Reader, cannot be read again for a second attempt: it is nil": (*strings.Reader)(nil),
		"*bytes.Buffer, cannot be read again for a second attempt: it is nil":   (*bytes.Buffer)(nil),
		"*os.File, cannot be read again for a second attempt: it is nil":        (*os.File)(nil),
	} {
		s := serve(reply(200))
		err := sendStream(t, s, body)
		if failed(t, err).Attempts != 0 || !strings.Contains(err.Error(), want) || len(s.requests) != 0 {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	if retry.Stream(nil) != nil {
		t.Error("no body has become one")
	}
}

// A file that fails while it is read ends an attempt, and the error says so.
func TestStreamFailsLater(t *testing.T) {
	t.Parallel()
	err := sendStream(t, serve(reply(200)), failingReader{strings.NewReader("body")})
	if !errors.Is(err, errBroken) {
		t.Errorf("%v is not %v", err, errBroken)
	}
}

type failingReader struct{ *strings.Reader }

func (failingReader) ReadAt([]byte, int64) (int, error) { return 0, errBroken }

func TestOneBody(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		required bool
		set      []bool
		want     string
	}{
		{true, []bool{true}, ""},
		{true, []bool{false, true, false}, ""},
		{false, []bool{false, false}, ""},
		{true, []bool{false, false}, "the input has no body; set one"},
		{false, []bool{true, true, false}, "the input has 2 bodies; set the one that is to be sent"},
	} {
		got := ""
		if err := retry.OneBody(c.required, c.set...); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%t %v: %q, want %q", c.required, c.set, got, c.want)
		}
	}
}
