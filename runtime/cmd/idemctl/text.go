package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// maxShown is how many characters of a scope or an operation a table shows.
const maxShown = 48

// shown is a text of somebody else for a table: quoted where it could be taken
// for something else or would do something to a terminal.
func shown(s string) string {
	if utf8.RuneCountInString(s) > maxShown {
		s = string([]rune(s)[:maxShown-1]) + "…"
	}
	return harmless(s)
}

// harmless quotes s unless it is one printable word.
func harmless(s string) string {
	odd := func(r rune) bool { return r == '"' || r == utf8.RuneError || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if s == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// keyPart is as much of a key as is printed unasked: half of it, at most 8
// characters.
func keyPart(key string) string {
	r := []rune(key)
	return string(r[:min(8, len(r)/2)])
}

// keyText is a key for a table.
func (inv *invocation) keyText(key string) string {
	if inv.keys {
		return harmless(key)
	}
	return harmless(keyPart(key) + "…")
}

func idText(id idempotency.Identity) string {
	sum := id.ID()
	return hex.EncodeToString(sum[:])
}

// timeText is a time for a table.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// status is that of an answer, for a table.
func statusText(status int) string {
	if status == 0 {
		return "-"
	}
	return strconv.Itoa(status)
}

// entryJSON is a record for scripts.
type entryJSON struct {
	ID         string            `json:"id"`
	State      idempotency.State `json:"state"`
	Status     int               `json:"status,omitempty"`
	Scope      string            `json:"scope"`
	Operation  string            `json:"operation"`
	Key        string            `json:"key,omitempty"`
	KeyPart    string            `json:"key_part,omitempty"` // in place of it
	Bytes      int64             `json:"bytes"`
	CreatedAt  time.Time         `json:"created_at,omitzero"`
	ExpiresAt  time.Time         `json:"expires_at,omitzero"`
	LeaseUntil time.Time         `json:"lease_until,omitzero"`
}

func (inv *invocation) entryJSON(e idempotency.Entry) entryJSON {
	j := entryJSON{
		ID: idText(e.Identity), State: e.State, Status: e.Status, Scope: e.Scope, Operation: e.Operation,
		Bytes: e.Bytes, CreatedAt: e.CreatedAt.UTC(), ExpiresAt: e.ExpiresAt.UTC(), LeaseUntil: e.LeaseUntil.UTC(),
	}
	if inv.keys {
		j.Key = e.Key
	} else {
		j.KeyPart = keyPart(e.Key)
	}
	return j
}

// printJSON prints v as one line. Whatever would do something to a terminal is
// escaped, beyond what JSON asks for.
func printJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	line := make([]byte, 0, text.Len())
	for _, r := range strings.TrimSuffix(text.String(), "\n") {
		switch {
		case unicode.IsPrint(r):
			line = utf8.AppendRune(line, r)
		case r <= 0xFFFF: // inside a string, since JSON's own marks are printed
			line = fmt.Appendf(line, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			line = fmt.Appendf(line, `\u%04x\u%04x`, high, low)
		}
	}
	_, err := w.Write(append(line, '\n'))
	return err
}

// count is "1 record" or "2 records".
func count(n int64) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}
