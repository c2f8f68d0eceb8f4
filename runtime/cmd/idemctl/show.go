package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/redisstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

func showFlags(inv *invocation, f *flag.FlagSet) {
	identityFlags(inv, f)
	f.BoolVar(&inv.keys, "keys", false, "")
	f.BoolVar(&inv.body, "body", false, "")
}

// identityFlags are those that name one record.
func identityFlags(inv *invocation, f *flag.FlagSet) {
	selectors(inv, f)
	f.StringVar(&inv.id.Key, "key", "", "")
}

// name notes which record the arguments name, by its id or by its identity.
func (inv *invocation) name(command string, args []string) error {
	id := inv.id
	switch {
	case len(args) == 1 && id == idempotency.Identity{}:
		digits, err := hex.DecodeString(strings.ReplaceAll(args[0], "-", ""))
		if err != nil || len(digits) != len(inv.record) {
			return misuse("%q is no id of a record, which has 32 hexadecimal digits", args[0])
		}
		if inv.record = [16]byte(digits); inv.record == [16]byte{} { // which would select any record
			return inv.notFound()
		}
		return nil
	case len(args) == 0 && id.Scope != "" && id.Operation != "" && id.Key != "":
		inv.record = id.ID()
		return nil
	}
	return misuse("%s takes either one id, or -scope, -operation and -key", command)
}

// find returns the record that the arguments name.
func (inv *invocation) find(ctx context.Context) (idempotency.Entry, error) {
	for e, err := range inv.records.List(ctx, idempotency.Filter{ID: inv.record}) {
		if err != nil {
			return e, err
		}
		if inv.id == (idempotency.Identity{}) || inv.id == e.Identity {
			return e, nil
		}
	}
	return idempotency.Entry{}, inv.notFound()
}

// scopeOfHeader prints the scope that idempotency.ScopeByHeader makes of VALUE.
const scopeOfHeader = "printf %s VALUE | openssl dgst -sha256 -binary | openssl base64 | tr '+/' '-_' | tr -d ="

// notFound says that the record is not there, and where it can be all the same.
func (inv *invocation) notFound() error {
	why := "there is no such record"
	switch inv.records.(type) {
	case *redisstore.Store:
		why += ". With redisstore.WithHashTag, the store's URL also needs the record's hash_tag="
	case *pgxstore.Store, *sqlstore.Store:
		why += ". A request that runs in a transaction of the database has none yet"
	}
	if inv.id.Scope != "" {
		why += ". With idempotency.ScopeByHeader the scope is a hash of the header's value: " + scopeOfHeader
	}
	return &refusal{why}
}

// recordJSON is a whole record for scripts.
type recordJSON struct {
	entryJSON
	Fingerprint string      `json:"fingerprint,omitempty"`
	Headers     http.Header `json:"headers,omitempty"`
	Body        string      `json:"body,omitempty"`
	BodyBase64  []byte      `json:"body_base64,omitempty"` // in place of it, if it is no text
	Unreadable  string      `json:"unreadable,omitempty"`
}

func show(ctx context.Context, inv *invocation) error {
	e, err := inv.find(ctx)
	if err != nil {
		return err
	}
	// A store that keeps claims apart from answers has no more to say of one.
	r, err := inv.records.Lookup(ctx, e.Identity)
	var unreadable *idempotency.UnreadableError
	switch {
	case errors.As(err, &unreadable), e.Status == 0 && errors.Is(err, idempotency.ErrNotFound):
	case errors.Is(err, idempotency.ErrNotFound):
		return inv.notFound() // it has gone meanwhile
	case err != nil:
		return err
	}
	if inv.json {
		j := recordJSON{entryJSON: inv.entryJSON(e), Fingerprint: hex.EncodeToString(r.Fingerprint)}
		if unreadable != nil {
			j.Unreadable = inWordsOfURLs.Replace(unreadable.Error())
		}
		if inv.body {
			j.Headers = r.Response.Header
			if utf8.Valid(r.Response.Body) {
				j.Body = string(r.Response.Body)
			} else {
				j.BodyBase64 = r.Response.Body
			}
		}
		return printJSON(inv.stdout, j)
	}
	table := tabwriter.NewWriter(inv.stdout, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"id", idText(e.Identity)},
		{"state", e.State.String()},
		{"status", statusText(e.Status)},
		{"scope", harmless(e.Scope)},
		{"operation", harmless(e.Operation)},
		{"key", inv.keyText(e.Key)},
		{"fingerprint", cmp.Or(hex.EncodeToString(r.Fingerprint), "-")},
		{"bytes", strconv.FormatInt(e.Bytes, 10)},
		{"created", timeText(e.CreatedAt)},
		{"expires", timeText(e.ExpiresAt)},
		{"lease until", timeText(e.LeaseUntil)},
	} {
		fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
	}
	if unreadable != nil {
		fmt.Fprintf(table, "unreadable\t%s\n", harmlessText(inWordsOfURLs.Replace(unreadable.Error())))
	}
	if err := table.Flush(); err != nil || !inv.body || unreadable != nil {
		return err
	}
	return inv.printAnswer(r.Response)
}

// printAnswer prints headers and body as HTTP has them.
func (inv *invocation) printAnswer(resp idempotency.Response) error {
	var b strings.Builder
	b.WriteByte('\n')
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		for _, value := range resp.Header[name] {
			fmt.Fprintf(&b, "%s: %s\n", harmless(name), harmlessText(value))
		}
	}
	if len(resp.Body) > 0 {
		fmt.Fprintf(&b, "\n%s\n", harmlessText(strings.TrimSuffix(string(resp.Body), "\n")))
	}
	_, err := fmt.Fprint(inv.stdout, b.String())
	return err
}

// harmlessText quotes a text that would do something to a terminal.
func harmlessText(s string) string {
	odd := func(r rune) bool { return r == utf8.RuneError || r != '\n' && r != '\t' && !unicode.IsPrint(r) }
	if !utf8.ValidString(s) || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}
