package drift

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/spec"
)

func (c *comparison) required(old, op *spec.Operation) {
	pos := op.Policy.Setting("required").Pos
	switch {
	case op.Policy.Required == old.Policy.Required:
	case op.Policy.Required:
		c.errorf(pos, "key-changed", "%s requires its key now: a request without one, which ran before, is answered 400 key_missing; write required: false until the outcome unprotected is counted no more", op.ID())
	default:
		c.errorf(pos, "key-changed", "%s does not require its key any more: a request without one, which was answered 400 key_missing, runs each time that it comes; write required: true unless clients without a key must be served", op.ID())
	}
}

func (c *comparison) place(old, op *spec.Operation) {
	was, is := old.Policy.Key, op.Policy.Key
	if was.Name == is.Name || was.IsHeader(is.Name) { // no header is called as a pointer is spelt
		return
	}
	fate := "is answered 400 key_missing"
	if !op.Policy.Required {
		fate = "runs unprotected"
	}
	from, keep := was.Name, "keep it until all clients send both"
	if was.InBody || is.InBody {
		// Only where the member is the key it is no part of the fingerprint.
		fate += ", and the retry of a live key whose body has the member 422 mismatch"
		from, keep = place(was), keep+" and no retry can come"
	}
	c.errorf(op.Policy.Setting("key.name").Pos, "key-changed", "%s reads its key from %s now, and did from %s: a client that sends the old one %s; %s", op.ID(), place(is), from, fate, keep)
}

// place says where a key is.
func place(k spec.Key) string {
	if k.InBody {
		return "the member " + k.Name + " of the body"
	}
	return "the header " + k.Name
}

func (c *comparison) format(old, op *spec.Operation) {
	was, is := old.Policy.Key.Format, op.Policy.Key.Format
	if was == is {
		return
	}
	// Opaque keys are kept as they are sent, and UUIDs in small letters.
	var consequence string
	switch {
	case was == spec.FormatOpaque:
		consequence = "another key is answered 400 key_invalid, and a live one in capital letters is not found, so that its retry runs again"
	case is == spec.FormatUUIDv7:
		consequence = "another UUID is answered 400 key_invalid, and a key older than its retention 412 key_expired"
	case is == spec.FormatUUID:
		consequence = "the retry of a key older than its retention runs again, and was answered 412 key_expired"
	default:
		consequence = "a live one that is sent in capital letters is not found, so that its retry runs again"
	}
	c.errorf(op.Policy.Setting("key.format").Pos, "key-changed", "keys of %s are %s now, and were %s: %s; keep the format until all clients send the new one and no retry can come", op.ID(), is, was, consequence)
}

func (c *comparison) length(old, op *spec.Operation) {
	was, is := longest(old.Policy.Key), longest(op.Policy.Key)
	pos := op.Policy.Setting("key.maxLength").Pos
	switch {
	case is < was && op.Policy.Key.Format == spec.FormatOpaque:
		c.errorf(pos, "key-changed", "keys of %s have at most %d bytes now, and had %d: a longer one, a live one too, is answered 400 key_invalid; keep the maxLength until no client sends such keys", op.ID(), is, was)
	case is > was && op.Policy.Key.Format == old.Policy.Key.Format:
		c.warnf(pos, "key-changed", "keys of %s have at most %d bytes now, and had %d: no client notices", op.ID(), is, was)
	}
}

// longest is the length of the longest valid key.
func longest(k spec.Key) int {
	if k.Format != spec.FormatOpaque {
		return spec.UUIDLength
	}
	return k.MaxLength
}

func (c *comparison) retention(old, op *spec.Operation) {
	was, is := old.Policy.Retention, op.Policy.Retention
	pos := op.Policy.Setting("retention").Pos
	judged := op.Policy.Key.Format == spec.FormatUUIDv7
	fate := "runs again"
	if judged {
		fate = "is answered 412 key_expired"
	}
	switch {
	case is < was:
		c.errorf(pos, "retention-changed", "answers of %s are kept for %s now, and were for %s: a retry that comes later than that %s; keep the retention unless all clients give up sooner", op.ID(), duration(is), duration(was), fate)
	case is > was && judged && old.Policy.Key.Format == spec.FormatUUIDv7:
		// The answers of such keys went after the old retention, and their age is
		// judged by the new one.
		c.errorf(pos, "retention-changed", "answers of %s are kept for %s now, and were for %s: the retry of a key whose answer is gone, which was answered 412 key_expired, runs again until the key is older than %s; keep the retention unless no retry comes after %s",
			op.ID(), duration(is), duration(was), duration(is), duration(was))
	case is > was:
		c.warnf(pos, "retention-changed", "answers of %s are kept for %s now, and were for %s: no client notices, and the store grows", op.ID(), duration(is), duration(was))
	}
}

// duration writes d without the zeros that time.Duration's String ends with.
func duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func (c *comparison) fingerprint(old, op *spec.Operation) {
	was, is := old.Policy.Fingerprint, op.Policy.Fingerprint
	changed := was.Raw != is.Raw || len(was.Include) > 0 != (len(is.Include) > 0) || !same(was.Exclude, is.Exclude) || !same(was.Include, is.Include)
	for _, p := range headersAndCookies(op) {
		changed = changed || slices.ContainsFunc(headersAndCookies(old), p.is) && p.counts(was) != p.counts(is)
	}
	if changed {
		c.errorf(op.Policy.Setting("fingerprint").Pos, "fingerprint-changed", "the fingerprint of %s is %s now, and was %s: the retry of an earlier request is answered 422 mismatch; keep it until no such retry can come", op.ID(), rule(is), rule(was))
	}
}

// same reports whether two lists name the same places of the body and the
// query. What they say of a header is nothing where that is not declared.
func same(a, b []string) bool { return slices.Equal(places(a), places(b)) }

func places(list []string) []string {
	all := slices.DeleteFunc(slices.Clone(list), func(place string) bool { return strings.HasPrefix(place, "header:") })
	slices.Sort(all)
	return all
}

// rule is a fingerprint as a person would write it.
func rule(f spec.Fingerprint) string {
	switch {
	case f.Raw:
		return "raw"
	case len(f.Exclude) > 0:
		return "exclude " + strings.Join(f.Exclude, ", ")
	case len(f.Include) > 0:
		return "include " + strings.Join(f.Include, ", ")
	default:
		return "canonical"
	}
}

// parameters compares the headers and cookies that one of the two declares, and
// that count there.
func (c *comparison) parameters(old, op *spec.Operation) {
	was, is := headersAndCookies(old), headersAndCookies(op)
	for _, p := range is {
		if !slices.ContainsFunc(was, p.is) && p.counts(op.Policy.Fingerprint) && !p.isKey(old) {
			c.warnf(p.Pos, "fingerprint-changed", "the fingerprint of %s has the %s %s now: the retry of a client that has sent it all along is answered 422 mismatch, and no other client notices", op.ID(), p.In, p.Name)
		}
	}
	for _, p := range was {
		if !slices.ContainsFunc(is, p.is) && p.counts(old.Policy.Fingerprint) && !p.isKey(op) {
			c.errorf(op.Pos, "fingerprint-changed", "the fingerprint of %s does not have the %s %s any more: the retry of an earlier request that has it is answered 422 mismatch; declare it until no such retry can come", op.ID(), p.In, p.Name)
		}
	}
}

// parameter is a header or a cookie.
type parameter struct{ spec.Parameter }

func (p parameter) is(other parameter) bool {
	return p.In == other.In && (p.Name == other.Name || p.In == "header" && strings.EqualFold(p.Name, other.Name))
}

func (p parameter) isKey(of *spec.Operation) bool {
	return p.In == "header" && of.Policy.Key.IsHeader(p.Name)
}

// counts reports whether the parameter counts under a rule.
func (p parameter) counts(f spec.Fingerprint) bool {
	named := func(list []string) bool {
		return p.In == "header" && slices.ContainsFunc(list, func(place string) bool { return strings.EqualFold(place, "header:"+p.Name) })
	}
	if len(f.Include) > 0 {
		return named(f.Include)
	}
	return !named(f.Exclude)
}

// headersAndCookies are those that the operation declares, each once and
// without the key.
func headersAndCookies(op *spec.Operation) []parameter {
	var all []parameter
	for _, declared := range op.Parameters {
		p := parameter{declared}
		if (p.In == "header" || p.In == "cookie") && !p.isKey(op) && !slices.ContainsFunc(all, p.is) {
			all = append(all, p)
		}
	}
	return all
}

// bodies compares as what the fingerprint takes a body of each type that was
// declared.
func (c *comparison) bodies(old, op *spec.Operation) {
	fp := op.Policy.Fingerprint
	if fp.Raw || len(fp.Include) > 0 && !slices.ContainsFunc(fp.Include, isPointer) {
		return // bodies count as their bytes, or do not
	}
	pos := op.Pos
	if op.Body != nil {
		pos = op.Body.Pos
	}
	for _, mediaType := range mediaTypes(old) {
		if was, is := bodyKind(old, mediaType), bodyKind(op, mediaType); was != is {
			c.errorf(pos, "fingerprint-changed", "the fingerprint of %s takes a body of type %q for %s now, and took it for %s: the retry of an earlier request with one is answered 422 mismatch; declare that type until no such retry can come", op.ID(), mediaType, is, was)
		}
	}
}

func isPointer(place string) bool { return strings.HasPrefix(place, "/") }

// mediaTypes are those of the declared body, without parameters, each once.
func mediaTypes(op *spec.Operation) []string {
	var all []string
	if op.Body != nil {
		for _, m := range op.Body.MediaTypes {
			if t := spec.Essence(m.Name); !slices.Contains(all, t) {
				all = append(all, t)
			}
		}
	}
	return all
}

// bodyKind is as what the runtime hashes a body of the type, which depends on
// the declared ones: a single one is taken whatever a request says.
func bodyKind(op *spec.Operation, mediaType string) string {
	const raw, json, parts = "bytes", "a JSON value", "the parts of a form"
	kind := ""
	declared := mediaTypes(op)
	for _, t := range declared {
		is := raw
		switch {
		case len(declared) > 1 && !strings.Contains(t, "*") && !strings.HasPrefix(mediaType, t):
			continue
		case spec.IsJSON(t):
			is = json
		case strings.HasPrefix(t, "multipart/"):
			is = parts
		}
		if kind != "" && kind != is {
			return raw // the types disagree
		}
		kind = is
	}
	if kind == "" {
		return raw
	}
	return kind
}

func (c *comparison) inFlight(old, op *spec.Operation) {
	was, is := old.Policy.WaitUpTo, op.Policy.WaitUpTo
	pos := op.Policy.Setting("inFlight").Pos
	switch {
	case is > was:
		c.warnf(pos, "in-flight-changed", "a retry of %s that comes during the first attempt waits up to %s now, and was answered 409 in_flight %s: clients notice nothing if they are that patient", op.ID(), duration(is), after(was))
	case is < was:
		c.errorf(pos, "in-flight-changed", "a retry of %s that comes during the first attempt is answered 409 in_flight %s now, and waited up to %s: a client that takes 409 for the end fails; keep the wait until all clients retry it", op.ID(), after(is), duration(was))
	}
}

func after(d time.Duration) string {
	if d == 0 {
		return "at once"
	}
	return "after " + duration(d)
}

func (c *comparison) mode(old, op *spec.Operation) {
	was, is := old.Policy.Lease, op.Policy.Lease
	pos := op.Policy.Setting("mode").Pos
	switch {
	case was == is:
	case was == 0:
		c.errorf(pos, "mode-changed", "the handler of %s runs under a lease now, and ran in a transaction: what it writes is no longer committed with its answer, and a retry after a crash runs it again; derive keys for what it calls, and give the server a store with leases", op.ID())
	case is == 0:
		c.errorf(pos, "mode-changed", "the handler of %s runs in a transaction now, and ran under a lease: a retry of a live key that has no answer yet runs it without what it has done elsewhere; wait until no such key is left", op.ID())
	default:
		c.warnf(pos, "mode-changed", "leases of %s are %s now, and were %s: a retry after a crash is answered 409 in_flight for that long, and a handler that stalls for longer loses its key", op.ID(), duration(is), duration(was))
	}
}

func (c *comparison) release(old, op *spec.Operation) {
	var consequences []string
	var frees, keeps bool
	for status := 400; status <= 599; status++ {
		was, is := releases(old.Policy.Release, status), releases(op.Policy.Release, status)
		frees = frees || is && !was
		keeps = keeps || was && !is
	}
	if frees {
		consequences = append(consequences, "an answer that is new in the list is rolled back, and its retry runs again")
	}
	if keeps {
		consequences = append(consequences, "one that is gone from it is stored with what the handler wrote, and replayed to every retry")
	}
	if len(consequences) == 0 {
		return
	}
	c.errorf(op.Policy.Setting("release").Pos, "release-changed", "answers that free the key of %s are %s now, and were %s: %s; change it with the clients that retry such answers", op.ID(), statuses(op.Policy.Release), statuses(old.Policy.Release), strings.Join(consequences, ", and "))
}

func releases(list []int, status int) bool {
	return slices.Contains(list, status) || slices.Contains(list, -(status/100))
}

// statuses is a list as a person would write it.
func statuses(list []int) string {
	all := make([]string, len(list))
	for i, status := range list {
		all[i] = fmt.Sprint(status)
		if status < 0 {
			all[i] = fmt.Sprintf("%dXX", -status)
		}
	}
	return "[" + strings.Join(all, ", ") + "]"
}
