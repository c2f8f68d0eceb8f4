package pgxstore

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// A server's answer of any shape is decoded or refused, and what is decoded
// does not share memory with it.
func FuzzDecodeRecord(f *testing.F) {
	none := []byte(nil)
	f.Add([]byte("tenant"), []byte{1, 2}, []byte{0, 201}, []byte("A: b\r\n"), []byte("body"), make([]byte, 8), []byte{1}, false, none, none, none)
	f.Add([]byte("tenant"), []byte{1, 2}, []byte{0, 0}, none, none, make([]byte, 8), []byte{0}, true, make([]byte, 16), make([]byte, 8), []byte{1})
	f.Add(none, none, none, none, none, none, none, true, none, none, none)
	f.Fuzz(func(t *testing.T, scope, fingerprint, status, header, body, at, expired []byte, leased bool, token, until, passed []byte) {
		if !leased { // null
			token, until, passed = nil, nil, nil
		}
		columns := [][]byte{scope, scope, scope, fingerprint, status, header, body, at, at, expired, token, until, passed}
		r, err := decodeRecord(columns)
		valid := len(status) == 2 && len(at) == 8 && len(expired) == 1 &&
			(token == nil || len(token) == 16) && (until == nil || len(until) == 8 && len(passed) == 1)
		if valid != (err == nil) {
			t.Fatalf("valid %v, error %v", valid, err)
		}
		if err != nil {
			return
		}
		want := bytes.Clone(body)
		for _, c := range columns {
			clear(c)
		}
		if !bytes.Equal(r.body, want) {
			t.Error("the record shares memory with the connection's buffer")
		}
		if r.claim() != (until != nil) {
			t.Error("a claim and an answer are taken for each other")
		}
		if _, err := decodeRecord(columns[:12]); err == nil {
			t.Error("a missing column is not noticed")
		}
	})
}

// Covers SEC-13: what is taken for a table name can be nothing else in SQL.
func FuzzParseTable(f *testing.F) {
	for _, s := range []string{"idempotency_records", "a.B_1", `a"b`, "a.b.c", "1a", "", "a\n", "é"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name, err := parseTable(s)
		if err != nil {
			return
		}
		if want := `"` + strings.ReplaceAll(s, ".", `"."`) + `"`; name.quoted() != want {
			t.Errorf("%q is quoted as %s", s, name.quoted())
		}
		if strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") != "" || strings.Count(s, ".") > 1 || len(s) > 111 {
			t.Errorf("%q is taken for a table name", s)
		}
	})
}

// Times and intervals have the server's form: microseconds from 2000 on, and
// no days.
func TestBinaryForms(t *testing.T) {
	t.Parallel()
	if got := decodeTime(encodeInt8(1_000_001)); !got.Equal(time.Date(2000, 1, 1, 0, 0, 1, 1000, time.UTC)) {
		t.Errorf("decodeTime: %v", got)
	}
	if got := decodeTime(encodeInt8(-1)); !got.Equal(time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)) {
		t.Errorf("decodeTime: %v", got)
	}
	for d, us := range map[time.Duration]int64{time.Nanosecond: 1, time.Microsecond: 1, 1001: 2, 48 * time.Hour: 172_800_000_000} {
		if got := encodeInterval(d); !bytes.Equal(got, append(encodeInt8(us), make([]byte, 8)...)) {
			t.Errorf("encodeInterval(%v): % x", d, got)
		}
	}
}
