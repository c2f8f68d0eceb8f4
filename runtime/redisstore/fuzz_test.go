package redisstore

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// FuzzDecode: fields of any content are a record or an error, and what is a
// record says what was in them.
func FuzzDecode(f *testing.F) {
	f.Add("t", "201", "tenant", "op", "k", "\x01print", "Content-Type: text/plain\r\n", "body", "1796073940378", "1796077540378")
	f.Add("", "200", "", "", "", "", "", "", "0", "0")
	f.Add("t", "99", "s", "o", "k", "f", "", "", "1", "2")
	f.Add("t", "0200", "s", "o", "k", "f", "no header", "\x00\xff", "-1", "9223372036854775807")
	f.Fuzz(func(t *testing.T, token, status, scope, operation, key, fingerprint, header, body, created, expires string) {
		fields := []any{token, status, scope, operation, key, fingerprint, header, body, created, expires}
		r, err := decode(fields)
		if err != nil {
			return
		}
		if r.status < 100 || r.status > 999 {
			t.Errorf("status %d", r.status)
		}
		if r.Identity != (idempotency.Identity{Scope: scope, Operation: operation, Key: key}) || r.token != token || r.fingerprint != fingerprint || string(r.body) != body {
			t.Errorf("%q became %+v", fields, r)
		}
		for i := range fields {
			fields[i] = nil
			if _, err := decode(fields); err == nil {
				t.Errorf("field %d is missing: no error", i)
			}
			fields = []any{token, status, scope, operation, key, fingerprint, header, body, created, expires}
		}
	})
}

// FuzzSlot: two keys with one hash tag share a slot, so that what Tx.Key makes
// does.
func FuzzSlot(f *testing.F) {
	f.Add("tag", "name")
	f.Add("{", "}")
	f.Add("a{b", "{c}")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, tag, name string) {
		if tag == "" || strings.Contains(tag, "}") {
			return // no hash tag: refused before
		}
		tx := &Tx{tag: tag}
		if got, want := slot(tx.Key(name)), slot("{"+tag+"}"); got != want || got >= slots {
			t.Errorf("slot(%q) = %d, want %d", tx.Key(name), got, want)
		}
	})
}
