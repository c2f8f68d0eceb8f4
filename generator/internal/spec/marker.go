package spec

import (
	"fmt"
	"go/token"
	"strings"
	"time"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// marker is what one marker, or the defaults, says: no more than is written.
type marker struct {
	pos    diag.Pos
	source Source

	required    setting[bool]
	keyIn       setting[string]
	keyName     setting[string]
	keyFormat   setting[KeyFormat]
	keyMax      setting[int]
	retention   setting[time.Duration]
	fingerprint setting[fingerprint]
	waitUpTo    setting[time.Duration]
	lease       setting[time.Duration]
	release     setting[[]int]
	name        setting[string]
}

// setting is a value that may have been written, and where.
type setting[T any] struct {
	value  T
	text   string // as a person would write it
	source Source // "" when nobody wrote it
	pos    diag.Pos
}

// fingerprint keeps the entries as values of the tree: they are checked
// against each operation's schema later.
type fingerprint struct {
	raw     bool
	exclude []tree.Value
	include []tree.Value
}

// MaxKeyLength is how many bytes a key has at most, and unless the document
// says otherwise.
const MaxKeyLength = 255

// Bounds of the other settings.
const (
	maxRetention = 10 * 365 * 24 * time.Hour
	maxWait      = 60 * time.Second
	// A lease has room for its heartbeat, and a key is not stuck for longer.
	minLease = time.Second
	maxLease = time.Hour
	// shortRetention is less than the time in which clients still retry.
	shortRetention = time.Minute
)

// parseMarker reads a marker's value and reports all that is wrong with it.
// It returns nil for false, which marks nothing.
func (l *loader) parseMarker(f tree.Field, source Source) *marker {
	m := &marker{pos: f.Key.Pos(), source: source}
	v := f.Value
	if on, ok := v.Bool(); ok {
		if !on {
			return nil
		}
		return m
	}
	if !v.IsMap() {
		l.errorf(v.Pos(), "wrong-type", "%s must be true, false or an object, not %s%s", f.Name, v.Kind(), boolHint(v))
		return m
	}
	l.parseSettings(v, m, true)
	return m
}

// boolHint says how to write what was probably meant.
func boolHint(v tree.Value) string {
	switch text := v.Text(); strings.ToLower(text) {
	case "true", "false":
		return fmt.Sprintf(" (%s): write %s without quotes", text, strings.ToLower(text))
	case "yes", "on", "y", "1": // words of YAML 1.1, which are strings in 1.2
		return fmt.Sprintf(" (%s): write true", text)
	case "no", "off", "n", "0":
		return fmt.Sprintf(" (%s): write false", text)
	default:
		return ": write true for the defaults"
	}
}

// defaults reads the defaults at the document's root.
func (l *loader) defaults() *marker {
	f := l.root.Field(l.opts.Marker + "-defaults")
	m := &marker{pos: f.Key.Pos(), source: FromDefaults}
	if !f.Value.Exists() {
		return m
	}
	if !f.Value.IsMap() {
		l.errorf(f.Value.Pos(), "wrong-type", "%s must be an object, not %s", f.Name, f.Value.Kind())
		return m
	}
	l.parseSettings(f.Value, m, false)
	return m
}

func (l *loader) parseSettings(v tree.Value, m *marker, operation bool) {
	what := "the marker"
	name := func(f tree.Field) { l.parseName(f.Value, m) }
	if !operation {
		what = "the defaults"
		name = func(f tree.Field) {
			l.errorf(f.Key.Pos(), "wrong-value", "a name belongs to one operation; write it in that operation's marker")
		}
	}
	l.members(v, what,
		tree.Member{Name: "required", Read: func(f tree.Field) { l.parseRequired(f.Value, m) }},
		tree.Member{Name: "key", Read: func(f tree.Field) { l.parseKey(f.Value, m) }},
		tree.Member{Name: "retention", Read: func(f tree.Field) {
			m.retention = l.duration(f.Value, "retention", maxRetention, "10 years (87600h)", m)
			if m.retention.source != "" && m.retention.value < shortRetention {
				l.warnf(f.Value.Pos(), "short-retention", "a retry that comes after %s happens again; clients retry for minutes and more, so keep answers for longer, such as 24h", m.retention.text)
			}
		}},
		tree.Member{Name: "fingerprint", Read: func(f tree.Field) { l.parseFingerprint(f.Value, m) }},
		tree.Member{Name: "inFlight", Read: func(f tree.Field) {
			m.waitUpTo = l.parseInFlight(f.Value, m)
		}},
		tree.Member{Name: "mode", Read: func(f tree.Field) { m.lease = l.parseMode(f.Value, m) }},
		tree.Member{Name: "release", Read: func(f tree.Field) { l.parseRelease(f.Value, m) }},
		tree.Member{Name: "name", Read: name},
	)
}

func (l *loader) members(v tree.Value, what string, known ...tree.Member) {
	l.findings = append(l.findings, tree.Members(v, what, known...)...)
}

func set[T any](m *marker, v tree.Value, value T, text string) setting[T] {
	return setting[T]{value: value, text: text, source: m.source, pos: v.Pos()}
}

func (l *loader) parseRequired(v tree.Value, m *marker) {
	on, ok := v.Bool()
	if !ok {
		l.errorf(v.Pos(), "wrong-type", "required must be true or false, not %s%s", v.Kind(), boolHint(v))
		return
	}
	m.required = set(m, v, on, fmt.Sprint(on))
}

func (l *loader) parseKey(v tree.Value, m *marker) {
	l.members(v, "key",
		tree.Member{Name: "in", Read: func(f tree.Field) {
			if s, ok := l.oneOf(f.Value, "key.in", inHeader, inBody); ok {
				m.keyIn = set(m, f.Value, s, s)
			}
		}},
		tree.Member{Name: "name", Read: func(f tree.Field) {
			v := f.Value
			s, ok := v.Str()
			if !ok {
				l.errorf(v.Pos(), "wrong-type", "key.name must be a string, not %s", v.Kind())
				return
			}
			m.keyName = set(m, v, s, s)
		}},
		tree.Member{Name: "format", Read: func(f tree.Field) {
			v := f.Value
			if s, ok := l.oneOf(v, "key.format", "opaque", "uuid", "uuidv7"); ok {
				m.keyFormat = set(m, v, KeyFormat(s), s)
			}
		}},
		tree.Member{Name: "maxLength", Read: func(f tree.Field) {
			v := f.Value
			n, ok := v.Int()
			if !ok || n < 1 || n > MaxKeyLength {
				l.errorf(v.Pos(), "wrong-value", "key.maxLength must be a whole number from 1 to %d", MaxKeyLength)
				return
			}
			m.keyMax = set(m, v, n, fmt.Sprint(n))
		}},
	)
}

// oneOf reads one of a few words.
func (l *loader) oneOf(v tree.Value, what string, words ...string) (string, bool) {
	s, ok := v.Str()
	for _, word := range words {
		if ok && s == word {
			return s, true
		}
	}
	got := v.Kind()
	hint := ""
	if ok {
		got = tree.Quote(s)
		if near := diag.Nearest(s, words); near != "" {
			hint = "; did you mean " + near + "?"
		}
	}
	last := len(words) - 1
	all := words[last]
	if last > 0 {
		all = strings.Join(words[:last], ", ") + " or " + all
	}
	l.errorf(v.Pos(), "wrong-value", "%s must be %s, not %s%s", what, all, got, hint)
	return "", false
}

func (l *loader) duration(v tree.Value, what string, most time.Duration, mostText string, m *marker) setting[time.Duration] {
	const units = "units are h, m, s, ms; a day is 24h"
	s, ok := v.Str()
	d, err := time.ParseDuration(s)
	switch {
	case !ok:
		l.errorf(v.Pos(), "wrong-type", `%s must be a duration such as "24h" or "5s", not %s (%s)`, what, v.Kind(), units)
	case err != nil:
		l.errorf(v.Pos(), "wrong-value", `%s must be a duration such as "24h" or "5s", not %s (%s)`, what, tree.Quote(s), units)
	case d <= 0:
		l.errorf(v.Pos(), "wrong-value", "%s must be more than 0, not %s", what, s)
	case d > most:
		l.errorf(v.Pos(), "wrong-value", "%s must be at most %s, not %s", what, mostText, s)
	default:
		return set(m, v, d, s)
	}
	return setting[time.Duration]{}
}

// parseMode reads how long a lease is; transaction stands for 0.
func (l *loader) parseMode(v tree.Value, m *marker) setting[time.Duration] {
	if s, ok := v.Str(); ok && s == "transaction" {
		return set(m, v, time.Duration(0), s)
	}
	d := l.durationMember(v, "mode", "transaction", "lease", maxLease, "1h", m)
	if d.source != "" && d.value < minLease {
		l.errorf(v.Get("lease").Pos(), "wrong-value", "mode.lease must be at least 1s, not %s", v.Get("lease").Text())
	}
	return d
}

// parseInFlight reads how long a duplicate waits; reject stands for 0.
func (l *loader) parseInFlight(v tree.Value, m *marker) setting[time.Duration] {
	if s, ok := v.Str(); ok && s == "reject" {
		return set(m, v, time.Duration(0), s)
	}
	return l.durationMember(v, "inFlight", "reject", "waitUpTo", maxWait, "60s", m)
}

// durationMember reads the form of a setting that is a map with a duration in
// its one member; word is the setting's other form.
func (l *loader) durationMember(v tree.Value, what, word, member string, most time.Duration, mostText string, m *marker) setting[time.Duration] {
	want := word + " or {" + member + ": DURATION}"
	if !v.IsMap() {
		got := v.Kind()
		if s, ok := v.Str(); ok {
			got = tree.Quote(s)
		}
		l.errorf(v.Pos(), "wrong-value", "%s must be %s, not %s", what, want, got)
		return setting[time.Duration]{}
	}
	var d setting[time.Duration]
	l.members(v, what, tree.Member{Name: member, Read: func(f tree.Field) {
		d = l.duration(f.Value, what+"."+member, most, mostText, m)
	}})
	if len(v.Fields()) == 0 {
		l.errorf(v.Pos(), "wrong-value", "%s is empty; write %s", what, want)
	}
	if d.source != "" {
		d.text = member + " " + d.text
	}
	return d
}

func (l *loader) parseRelease(v tree.Value, m *marker) {
	if !v.IsList() {
		l.errorf(v.Pos(), "wrong-type", "release must be a list of statuses such as [429, 5XX], not %s", v.Kind())
		return
	}
	statuses := []int{}
	texts := map[string]bool{}
	var order []string
	for _, item := range v.Items() {
		status, ok := releaseStatus(item)
		if !ok {
			l.errorf(item.Pos(), "wrong-value", "a status to release is a number from 400 to 599, or 4XX or 5XX, not %s", releaseText(item))
			continue
		}
		if texts[item.Text()] {
			l.errorf(item.Pos(), "wrong-value", "release lists %s twice", item.Text())
			continue
		}
		texts[item.Text()] = true
		order = append(order, item.Text())
		statuses = append(statuses, status)
	}
	m.release = set(m, v, statuses, "["+strings.Join(order, ", ")+"]")
}

func releaseStatus(v tree.Value) (int, bool) {
	if s, ok := v.Str(); ok {
		switch s {
		case "4XX":
			return -4, true
		case "5XX":
			return -5, true
		}
		return 0, false
	}
	n, ok := v.Int()
	return n, ok && n >= 400 && n <= 599
}

func releaseText(v tree.Value) string {
	if v.Text() != "" {
		return tree.Quote(v.Text())
	}
	return v.Kind()
}

func (l *loader) parseName(v tree.Value, m *marker) {
	s, ok := v.Str()
	if !ok || !token.IsIdentifier(s) || s[0] < 'A' || s[0] > 'Z' {
		l.errorf(v.Pos(), "wrong-value", "name must be an exported Go name such as CreatePaymentIdempotentRequest, not %s", releaseText(v))
		return
	}
	m.name = set(m, v, s, s)
}

func (l *loader) parseFingerprint(v tree.Value, m *marker) {
	if _, isString := v.Str(); isString {
		if s, ok := l.oneOf(v, "fingerprint", "canonical", "raw"); ok {
			m.fingerprint = set(m, v, fingerprint{raw: s == "raw"}, s)
		}
		return
	}
	if !v.IsMap() {
		l.errorf(v.Pos(), "wrong-type", "fingerprint must be canonical, raw, {exclude: [...]} or {include: [...]}, not %s", v.Kind())
		return
	}
	var fp fingerprint
	l.members(v, "fingerprint",
		tree.Member{Name: "exclude", Read: func(f tree.Field) { fp.exclude = l.fingerprintEntries(f.Value, "exclude") }},
		tree.Member{Name: "include", Read: func(f tree.Field) { fp.include = l.fingerprintEntries(f.Value, "include") }},
	)
	switch exclude, include := v.Get("exclude"), v.Get("include"); {
	case exclude.Exists() && include.Exists():
		l.errorf(v.Field("include").Key.Pos(), "wrong-value", "fingerprint takes exclude or include, not both")
	case !exclude.Exists() && !include.Exists() && len(v.Fields()) == 0:
		l.errorf(v.Pos(), "wrong-value", "fingerprint is empty; write canonical, raw, {exclude: [...]} or {include: [...]}")
	}
	m.fingerprint = set(m, v, fp, fp.text())
}

// text is the fingerprint as a person would write it.
func (fp fingerprint) text() string {
	what, entries := "exclude", fp.exclude
	if len(fp.include) > 0 {
		what, entries = "include", fp.include
	}
	texts := make([]string, len(entries))
	for i, v := range entries {
		texts[i] = v.Text()
	}
	return what + " " + strings.Join(texts, ", ")
}

// fingerprintEntries reads a list of places in a request. What they name is
// checked later.
func (l *loader) fingerprintEntries(v tree.Value, what string) []tree.Value {
	if !v.IsList() || len(v.Items()) == 0 {
		l.errorf(v.Pos(), "wrong-type", "fingerprint.%s must be a list of one or more places such as /sent_at, header:X-Trace or query:t", what)
		return nil
	}
	var entries []tree.Value
	seen := map[string]bool{}
	for _, item := range v.Items() {
		s, ok := item.Str()
		switch problem := placeProblem(s); {
		case !ok:
			l.errorf(item.Pos(), "wrong-type", "a place is a string such as /sent_at, header:X-Trace or query:t, not %s", item.Kind())
		case problem != "":
			l.errorf(item.Pos(), "wrong-value", "%s is no place in a request: %s", tree.Quote(s), problem)
		case seen[s]:
			l.errorf(item.Pos(), "wrong-value", "%s stands twice", tree.Quote(s))
		default:
			seen[s] = true
			entries = append(entries, item)
		}
	}
	return entries
}

// placeProblem says what is wrong with the spelling of a place, or "".
func placeProblem(s string) string {
	switch kind, name, isNamed := strings.Cut(s, ":"); {
	case strings.HasPrefix(s, "/"):
		return pointerProblem(s)
	case isNamed && kind == "header" && !isToken(name):
		return "a header's name is made of letters, digits and !#$%&'*+-.^_`|~"
	case isNamed && kind == "query" && name == "":
		return "the parameter's name is missing"
	case isNamed && (kind == "header" || kind == "query"):
		return ""
	default:
		return "write a JSON Pointer (/sent_at), header:NAME or query:NAME"
	}
}

// pointerProblem says what is wrong with a JSON Pointer (RFC 6901), or "".
func pointerProblem(s string) string {
	if !strings.HasPrefix(s, "/") {
		return "a JSON Pointer begins with /"
	}
	for i := range len(s) {
		if s[i] == '~' && (i+1 == len(s) || s[i+1] != '0' && s[i+1] != '1') {
			return "in a JSON Pointer, ~ is written ~0 and / is written ~1"
		}
	}
	return ""
}

// isToken reports whether s is a token of HTTP (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}
