package answercodec_test

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/answercodec"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// key is one of 32 bytes.
func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, 32) }

// ring is a keyring of these keys; the first is the current one.
func ring(t testing.TB, ids ...string) *answercodec.Keyring {
	t.Helper()
	keys := map[string][]byte{}
	for _, id := range ids {
		keys[id] = key(id[0])
	}
	r, err := answercodec.NewKeyring(ids[0], keys)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newCodec(t testing.TB, opts ...answercodec.Option) *answercodec.Codec {
	t.Helper()
	c, err := answercodec.New(t.Context(), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func request(key string) idempotency.Request {
	return idempotency.Request{
		Identity:    idempotency.Identity{Scope: "tenant", Operation: "createPayment", Key: key},
		Fingerprint: idempotency.Fingerprint{1, 2, 3},
	}
}

// list is a JSON list of n bytes or somewhat more.
func list(n int) []byte {
	type entry struct {
		ID     string `json:"id"`
		Amount int    `json:"amount"`
		At     string `json:"created_at"`
	}
	var entries []entry
	random := rand.New(rand.NewPCG(1, 2))
	for size := 0; size < n; size += 80 {
		entries = append(entries, entry{fmt.Sprintf("pay_%016x", random.Uint64()), random.IntN(100_000), "2026-11-30T12:00:00Z"})
	}
	b, err := json.Marshal(entries)
	if err != nil {
		panic(err)
	}
	return b
}

// noise cannot be compressed.
func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(b)
	return b
}

func answer(body []byte) idempotency.Response {
	return idempotency.Response{Status: 201, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// encode returns what a store reads after it has written resp.
func encode(t testing.TB, c idempotency.Codec, req idempotency.Request, resp idempotency.Response) idempotency.StoredAnswer {
	t.Helper()
	header, body, err := idempotency.EncodeAnswer(t.Context(), c, req, resp)
	if err != nil {
		t.Fatal(err)
	}
	return idempotency.StoredAnswer{
		Identity: req.Identity, Fingerprint: bytes.Clone(req.Fingerprint[:]), Status: resp.Status,
		Header: bytes.Clone(header), Body: bytes.Clone(body),
	}
}

// reads reports whether c reads s as resp; it fails the test for another answer.
func reads(t testing.TB, c idempotency.Codec, s idempotency.StoredAnswer, resp idempotency.Response) error {
	t.Helper()
	got, err := idempotency.DecodeAnswer(t.Context(), c, s)
	switch {
	case err != nil && !errors.Is(err, idempotency.ErrOutcomeUnknown):
		t.Errorf("%v, which is not %v", err, idempotency.ErrOutcomeUnknown)
	case err == nil && !got.Equal(resp):
		t.Errorf("read as another answer, of %d bytes", len(got.Body))
	}
	return err
}

// Answers come back byte for byte, whatever the codec does with them, and what
// it does is told by the format. Nothing of an encrypted answer is seen.
//
// Covers RSP-07, RSP-09, RSP-10, RSP-14.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	keys := answercodec.WithEncryption(ring(t, "1"))
	codecs := map[string]*answercodec.Codec{
		"compressed": newCodec(t, answercodec.WithCompression()),
		"encrypted":  newCodec(t, keys),
		"both":       newCodec(t, keys, answercodec.WithCompression()),
	}
	for _, c := range []struct {
		name    string
		body    []byte
		formats map[string]byte
	}{
		{"empty", nil, map[string]byte{"encrypted": 2, "both": 2}},
		{"short", []byte(`{"id":"pay_1"}`), map[string]byte{"encrypted": 2, "both": 2}},
		{"list", list(8 << 10), map[string]byte{"compressed": 1, "encrypted": 2, "both": 3}},
		{"noise", noise(8 << 10), map[string]byte{"encrypted": 2, "both": 2}},
		{"large", list(1 << 20), map[string]byte{"compressed": 1, "encrypted": 2, "both": 3}},
		{"over the limit", make([]byte, 5<<20), map[string]byte{"encrypted": 2, "both": 2}},
	} {
		for name, codec := range codecs {
			resp := answer(c.body)
			s := encode(t, codec, request("k"), resp)
			format := byte(0)
			if s.Header[0] < ' ' {
				format = s.Header[0]
			}
			if format != c.formats[name] {
				t.Errorf("%s, %s: format %d, want %d", c.name, name, format, c.formats[name])
			}
			if format&1 != 0 && len(s.Body) > len(c.body)/2 {
				t.Errorf("%s, %s: %d bytes of %d", c.name, name, len(s.Body), len(c.body))
			}
			if format&2 != 0 && (bytes.Contains(s.Header, []byte("json")) || len(c.body) > 0 && bytes.Contains(s.Body, c.body[:min(len(c.body), 8)])) {
				t.Errorf("%s, %s: parts of the answer are seen", c.name, name)
			}
			for reader, other := range codecs {
				err := reads(t, other, s, resp)
				if readable := format&2 == 0 || reader != "compressed"; (err == nil) != readable {
					t.Errorf("%s, %s: read by %s: %v", c.name, name, reader, err)
				}
			}
		}
	}
}

// The same answer is never encrypted alike.
func TestNoncesDiffer(t *testing.T) {
	t.Parallel()
	c := newCodec(t, answercodec.WithEncryption(ring(t, "1")))
	seen := map[string]bool{}
	for range 100 {
		seen[string(encode(t, c, request("k"), answer([]byte("paid"))).Body)] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d of 100 differ", len(seen))
	}
}

// tamperings are rows that differ from s in one thing: a byte changed, left out
// or added, or another identity, fingerprint or status.
func tamperings(s idempotency.StoredAnswer) map[string]idempotency.StoredAnswer {
	all := map[string]idempotency.StoredAnswer{}
	for name, column := range map[string]func(*idempotency.StoredAnswer) *[]byte{
		"header":      func(s *idempotency.StoredAnswer) *[]byte { return &s.Header },
		"body":        func(s *idempotency.StoredAnswer) *[]byte { return &s.Body },
		"fingerprint": func(s *idempotency.StoredAnswer) *[]byte { return &s.Fingerprint },
	} {
		b := *column(&s)
		put := func(what string, b []byte) {
			changed := s
			*column(&changed) = b
			all[name+" "+what] = changed
		}
		for i := range b {
			for bit := range 8 {
				flipped := bytes.Clone(b)
				flipped[i] ^= 1 << bit
				put(fmt.Sprintf("byte %d bit %d", i, bit), flipped)
			}
			put(fmt.Sprintf("cut to %d bytes", i), b[:i])
		}
		put("with one more byte", append(bytes.Clone(b), 0))
	}
	change := func(name string, f func(*idempotency.StoredAnswer)) {
		changed := s
		f(&changed)
		all[name] = changed
	}
	change("status", func(s *idempotency.StoredAnswer) { s.Status++ })
	change("scope", func(s *idempotency.StoredAnswer) { s.Scope = "other" })
	change("operation", func(s *idempotency.StoredAnswer) { s.Operation = "other" })
	change("key", func(s *idempotency.StoredAnswer) { s.Key = "other" })
	change("moved border", func(s *idempotency.StoredAnswer) { s.Scope, s.Operation = "tenantc", "reatePayment" })
	return all
}

// An encrypted answer of which anything was changed is refused, and so is one
// that stands in the row of another.
func TestTampering(t *testing.T) {
	t.Parallel()
	keys := answercodec.WithEncryption(ring(t, "1", "0", "3", "9"))
	strict := newCodec(t, keys, answercodec.WithEncryptedOnly())
	for name, c := range map[string]*answercodec.Codec{
		"encrypted": newCodec(t, keys),
		"both":      newCodec(t, keys, answercodec.WithCompression()),
	} {
		resp := answer(bytes.Repeat([]byte("paid "), 300))
		s := encode(t, c, request("k"), resp)
		tried := 0
		for what, changed := range tamperings(s) {
			tried++
			if reads(t, strict, changed, resp) == nil {
				t.Errorf("%s: changed %s, and it was read", name, what)
			}
		}
		other := encode(t, c, request("other"), resp)
		s.Header, s.Body, other.Header, other.Body = other.Header, other.Body, s.Header, s.Body
		for _, swapped := range []idempotency.StoredAnswer{s, other} {
			if reads(t, strict, swapped, resp) == nil {
				t.Errorf("%s: an answer was read from the row of another", name)
			}
		}
		t.Logf("%s: %d changes", name, tried)
	}
}

// anyID is a service that finds its key without the id, as some do.
type anyID struct{ *answercodec.Keyring }

func (k anyID) Unwrap(ctx context.Context, _ string, wrapped []byte) ([]byte, error) {
	return k.Keyring.Unwrap(ctx, "1", wrapped)
}

// The format, the key's id and every byte before the sealed answer are part of what
// is sealed, even where they would be read alike.
func TestSealedWhole(t *testing.T) {
	t.Parallel()
	c := newCodec(t, answercodec.WithEncryption(anyID{ring(t, "1")}), answercodec.WithCompression())
	binding := []byte("binding")
	compressed, err := c.Encode(t.Context(), binding, list(2000))
	if err != nil {
		t.Fatal(err)
	}
	_, n := binary.Uvarint(compressed.Data)
	for name, e := range map[string]idempotency.Encoded{
		"format":        {Format: 2, KeyID: compressed.KeyID, Data: compressed.Data},
		"key's id":      {Format: 3, KeyID: "2", Data: compressed.Data},
		"length's form": {Format: 3, KeyID: compressed.KeyID, Data: append([]byte{compressed.Data[0] | 0x80, 0}, compressed.Data[n:]...)},
	} {
		if got, err := c.Decode(t.Context(), binding, e); err == nil {
			t.Errorf("another %s, and it was read as an answer of %d bytes", name, len(got))
		}
	}
}

// Damage of a compressed answer is found, or does not matter.
func TestDamage(t *testing.T) {
	t.Parallel()
	c := newCodec(t, answercodec.WithCompression())
	resp := answer(list(1100))
	s := encode(t, c, request("k"), resp)
	refused := 0
	all := tamperings(s)
	for what, changed := range all {
		if strings.HasPrefix(what, "header") && (len(changed.Header) == 0 || changed.Header[0] == 0 || changed.Header[0] >= ' ') {
			continue // no compressed answer any more
		}
		if reads(t, c, changed, resp) != nil { // never as another answer
			refused++
		}
	}
	if refused < len(all)*9/10 {
		t.Errorf("%d of %d changes were refused", refused, len(all))
	}
}

// A row that would decompress to more than the limit, or to another size than it
// says, costs no more memory than an answer may.
func TestBomb(t *testing.T) { //nolint:paralleltest // it counts allocations
	var stream bytes.Buffer
	w, err := flate.NewWriter(&stream, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const limit = 64 << 10
	c := newCodec(t, answercodec.WithCompression(), answercodec.WithLimit(limit))
	s := encode(t, c, request("k"), answer(list(2000)))
	for name, size := range map[string]uint64{"its size": 8 << 20, "the limit": limit, "one more": limit + 1, "less": 1 << 10, "no size": 1<<64 - 1} {
		bomb := s
		bomb.Body = append(binary.AppendUvarint(make([]byte, 4), size), stream.Bytes()...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if reads(t, c, bomb, idempotency.Response{}) == nil {
			t.Errorf("%s: it was read", name)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > limit+64<<10 {
			t.Errorf("%s: %d bytes were allocated", name, used)
		}
	}
}

// An answer under a key that the ring does not hold any more, or not yet, is not
// read, and the error names the key and those that are there.
func TestMissingKey(t *testing.T) {
	t.Parallel()
	resp := answer([]byte("paid"))
	s := encode(t, newCodec(t, answercodec.WithEncryption(ring(t, "2026-10"))), request("k"), resp)
	for name, c := range map[string]struct {
		codec *answercodec.Codec
		says  string
	}{
		"retired": {newCodec(t, answercodec.WithEncryption(ring(t, "2026-12", "2026-11"))), `["2026-11" "2026-12"]`},
		"no keys": {newCodec(t, answercodec.WithCompression()), "give it WithEncryption"},
	} {
		err := reads(t, c.codec, s, resp)
		var unreadable *idempotency.UnreadableError
		if !errors.As(err, &unreadable) || unreadable.KeyID != "2026-10" || !errors.Is(err, answercodec.ErrUnknownKey) ||
			!strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), `"2026-10"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := reads(t, newCodec(t, answercodec.WithEncryption(ring(t, "2026-11", "2026-10"))), s, resp); err != nil {
		t.Errorf("rotated: %v", err)
	}
	sameID, err := answercodec.NewKeyring("2026-10", map[string][]byte{"2026-10": key('x')})
	if err != nil {
		t.Fatal(err)
	}
	if reads(t, newCodec(t, answercodec.WithEncryption(sameID)), s, resp) == nil {
		t.Error("another key under the same id has read the answer")
	}
}

// Encryption is rolled out without an answer that a replica cannot read, and at
// the end plain and merely compressed answers are refused.
func TestRollOut(t *testing.T) {
	t.Parallel()
	keys := answercodec.WithEncryption(ring(t, "1"))
	steps := []idempotency.Codec{
		nil,
		newCodec(t, keys, answercodec.WithReadOnly()),
		newCodec(t, keys),
		newCodec(t, keys, answercodec.WithEncryptedOnly()),
	}
	resp := answer(list(2000))
	for i, writer := range steps {
		s := encode(t, writer, request("k"), resp)
		for _, j := range []int{i - 1, i, i + 1} { // steps that are live at once
			if j < 0 || j == len(steps) || i < 2 && j == 3 {
				continue
			}
			if err := reads(t, steps[j], s, resp); err != nil {
				t.Errorf("written in step %d, read in step %d: %v", i, j, err)
			}
		}
	}
	last := steps[3]
	for name, writer := range map[string]idempotency.Codec{"plain": nil, "compressed": newCodec(t, answercodec.WithCompression())} {
		if reads(t, last, encode(t, writer, request("k"), resp), resp) == nil {
			t.Errorf("a %s answer was read by a codec that refuses it", name)
		}
	}
}

// A format of a later version or of another codec is refused by its number.
func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	c := newCodec(t, answercodec.WithCompression(), answercodec.WithEncryption(ring(t, "1")))
	for format := byte(4); format < ' '; format++ {
		s := encode(t, c, request("k"), answer([]byte("paid")))
		s.Header[0] = format
		if err := reads(t, c, s, idempotency.Response{}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("format %d ", format)) {
			t.Errorf("format %d: %v", format, err)
		}
	}
}

// What is missing or wrong is said when the codec is made.
func TestNew(t *testing.T) {
	t.Parallel()
	keys := answercodec.WithEncryption(ring(t, "1"))
	for want, opts := range map[string][]answercodec.Option{
		"nothing to do":                 nil,
		"the keys are nil":              {answercodec.WithEncryption(nil)},
		"needs WithEncryption":          {answercodec.WithCompression(), answercodec.WithEncryptedOnly()},
		"leave WithReadOnly out":        {keys, answercodec.WithReadOnly(), answercodec.WithEncryptedOnly()},
		"the limit is 10 bytes":         {answercodec.WithCompression(), answercodec.WithLimit(10)},
		"999ms is not 1 second":         {keys, answercodec.WithDataKeyAge(999 * time.Millisecond)},
		"24h0m0.000000001s is not 1":    {keys, answercodec.WithDataKeyAge(24*time.Hour + 1)},
		"wrapping is denied":            {answercodec.WithEncryption(service{wrapErr: errors.New("wrapping is denied")})},
		"cannot be unwrapped":           {answercodec.WithEncryption(service{unwrapErr: errors.New("unwrapping is denied")})},
		"another data key":              {answercodec.WithEncryption(service{unwrapped: key(1)})},
		"a data key of 3 bytes":         {answercodec.WithEncryption(service{unwrapped: []byte("abc")})},
		`the key's id ""`:               {answercodec.WithEncryption(service{noID: true})},
		"must have 1 to 255 bytes":      {answercodec.WithEncryption(service{id: strings.Repeat("k", 256)})},
		"no data key could be had":      {answercodec.WithEncryption(service{wrapErr: errors.New("timeout")})},
		`wrapped with the key "remote"`: {answercodec.WithEncryption(service{unwrapErr: errors.New("denied")})},
	} {
		if c, err := answercodec.New(t.Context(), opts...); err == nil || c != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if _, err := answercodec.New(t.Context(), answercodec.WithReadOnly(), answercodec.WithEncryption(service{wrapErr: errors.New("denied")})); err != nil {
		t.Errorf("a codec that only reads needs the right to wrap: %v", err)
	}
	for want, c := range map[string]struct {
		current string
		keys    map[string][]byte
	}{
		`the current key "2"`:     {"2", map[string][]byte{"1": key(1)}},
		`"1" has 31 bytes`:        {"1", map[string][]byte{"1": key(1)[1:]}},
		`id ""`:                   {"", map[string][]byte{"": key(1)}},
		`id "a b"`:                {"a b", map[string][]byte{"a b": key(1)}},
		"is not among the 0 keys": {"1", nil},
	} {
		if r, err := answercodec.NewKeyring(c.current, c.keys); err == nil || r != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// service is a key management service that misbehaves. It wraps by a XOR.
type service struct {
	id                 string
	noID               bool
	wrapErr, unwrapErr error
	unwrapped          []byte
}

func (s service) Wrap(_ context.Context, dataKey []byte) (string, []byte, error) {
	id := s.id
	if id == "" && !s.noID {
		id = "remote"
	}
	return id, mask(dataKey), s.wrapErr
}

func (s service) Unwrap(_ context.Context, _ string, wrapped []byte) ([]byte, error) {
	if s.unwrapped != nil {
		return s.unwrapped, nil
	}
	return mask(wrapped), s.unwrapErr
}

func mask(b []byte) []byte {
	b = bytes.Clone(b)
	for i := range b {
		b[i] ^= 0x55
	}
	return b
}

// Replicas of both sides of a rotation read each other's answers while all of
// them write.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	codecs := []idempotency.Codec{
		newCodec(t, answercodec.WithCompression(), answercodec.WithEncryption(ring(t, "1", "2"))),
		newCodec(t, answercodec.WithCompression(), answercodec.WithEncryption(ring(t, "2", "1"))),
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 50 {
				resp := answer(append(list(100*j), byte(i)))
				s := encode(t, codecs[(i+j)%2], request(fmt.Sprint(i, j)), resp)
				if err := reads(t, codecs[j%2], s, resp); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// Whatever is in a row, it is read as the answer that was stored, or not at all.
func FuzzDecode(f *testing.F) {
	c := newCodec(f, answercodec.WithCompression(), answercodec.WithLimit(64<<10), answercodec.WithEncryption(ring(f, "1", "2")))
	compressing := newCodec(f, answercodec.WithCompression())
	req := request("k")
	binding := []byte("binding")
	long := list(2000)
	for _, s := range []idempotency.StoredAnswer{
		encode(f, c, req, answer([]byte("paid"))),
		encode(f, c, req, answer(long)),
		encode(f, compressing, req, answer(long)),
	} {
		f.Add(s.Header[0], string(s.Header[1:]), s.Body)
	}
	for _, own := range []*answercodec.Codec{c, compressing} {
		e, err := own.Encode(f.Context(), binding, long)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Format, e.KeyID, e.Data)
	}
	f.Fuzz(func(t *testing.T, format byte, keyID string, data []byte) {
		given := slices.Clone(data)
		got, err := c.Decode(t.Context(), binding, idempotency.Encoded{Format: format, KeyID: keyID, Data: data})
		if !bytes.Equal(given, data) {
			t.Fatal("Decode has changed its input")
		}
		if err != nil {
			return
		}
		if len(got) > 64<<10 {
			t.Fatalf("%d bytes are over the limit", len(got))
		}
		if format&2 != 0 && !bytes.Equal(got, long) {
			t.Fatal("an encrypted answer was read that nobody has stored")
		}
	})
}
