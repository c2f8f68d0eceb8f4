package idempotency

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Fingerprint says what a request contains: a version byte, then SHA-256
// over its length-framed parts.
type Fingerprint [33]byte

// fingerprintVersion is the version of new records. Whoever changes what
// computeFingerprint hashes adds a version and keeps the old one for as long
// as records of it can live, and version 1 for good, because of Derive.
const fingerprintVersion = 1

// fingerprintInput is a request, free of any framework.
type fingerprintInput struct {
	Method, EscapedPath, RawQuery string
	Header                        http.Header
	ContentType                   string
	Body                          []byte
}

// computeFingerprint returns the fingerprint of a request to op. It is never
// coarser than what a handler can see: method, operation, path parameters,
// query, declared header and cookie parameters, the body's media type and the
// body, except for what op's rule leaves out and the key itself. It returns an
// [*Error] with [CodeBodyInvalid] for a JSON body that is not exactly one value
// and for multipart that does not parse, and another error for an unknown
// version.
func computeFingerprint(version byte, op *Operation, in fingerprintInput) (Fingerprint, error) {
	if version != fingerprintVersion {
		return Fingerprint{}, fmt.Errorf("idempotency: fingerprint version %d is not known to this release", version)
	}
	s := fingerprintScratches.Get().(*fingerprintScratch) //nolint:forcetypeassert // it holds nothing else
	defer s.release(len(in.Body))
	b := appendFramed(s.frame[:0], in.Method)
	b = appendFramed(b, op.ID)
	b = appendPath(b, op.Path, in.EscapedPath)
	b = appendQuery(b, &op.Fingerprint, in.RawQuery)
	b = appendHeaders(b, op, in.Header)
	b = appendCookies(b, op, in.Header)
	b, err := s.appendBody(b, op, in)
	s.frame = b
	if err != nil {
		return Fingerprint{}, err
	}
	sum := sha256.Sum256(b)
	f := Fingerprint{fingerprintVersion}
	copy(f[1:], sum[:])
	return f, nil
}

// fingerprintScratch is the memory of one computation.
type fingerprintScratch struct {
	frame []byte
	json  canonicalizer
}

// release gives the memory back for another computation, unless a body of that
// size has made it too large to be kept.
func (s *fingerprintScratch) release(size int) {
	if size <= 16<<10 {
		fingerprintScratches.Put(s)
	}
}

var fingerprintScratches = sync.Pool{New: func() any { return new(fingerprintScratch) }}

// The prefixes of [FingerprintRule] entries that are not JSON Pointers.
const (
	headerEntry = "header:"
	queryEntry  = "query:"
)

// entries returns the rule's entries and whether nothing but them counts.
func (r *FingerprintRule) entries() (entries []string, include bool) {
	if len(r.Include) > 0 {
		return r.Include, true
	}
	return r.Exclude, false
}

// counts reports whether a parameter counts. kind is headerEntry or queryEntry.
func (r *FingerprintRule) counts(kind, name string, same func(a, b string) bool) bool {
	entries, include := r.entries()
	for _, entry := range entries {
		if named, ok := strings.CutPrefix(entry, kind); ok && same(named, name) {
			return include
		}
	}
	return !include
}

// pointers returns the JSON Pointers of the operation's rule. The key's own
// member never counts; none of what is included holds it.
func (o *Operation) pointers() (pointers []string, include bool) {
	entries, include := o.Fingerprint.entries()
	if o.Key.Body != "" && !include {
		pointers = append(pointers, o.Key.Body)
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry, "/") {
			pointers = append(pointers, entry)
		}
	}
	return pointers, include
}

// appendPath appends the end of a path that holds all of the template's
// segments, so that neither a base path nor http.StripPrefix matters. Segments
// are decoded one by one: a%2Fb and a%2fb are one segment, a/b are two. Empty
// segments count but do not stand for one of the template's, since a router
// may have dropped them; after a dot segment, which a router may have
// resolved, the whole path counts. It does, too, where the template is no path:
// the handler of a webhook may serve several addresses.
func appendPath(b []byte, template, escaped string) []byte {
	missing := 0
	if !strings.HasPrefix(template, "/") {
		missing = len(escaped)
	}
	for i := range len(template) {
		if template[i] != '/' && (i == 0 || template[i-1] == '/') {
			missing++
		}
	}
	start := len(escaped)
	for start > 0 && missing > 0 {
		slash := max(strings.LastIndexByte(escaped[:start], '/'), 0)
		switch segment, _ := unescape(strings.TrimPrefix(escaped[slash:start], "/"), url.PathUnescape); segment {
		case "":
		case ".", "..":
			missing = len(escaped)
		default:
			missing--
		}
		start = slash
	}
	tail := strings.TrimPrefix(escaped[start:], "/")
	b = binary.AppendUvarint(b, uint64(strings.Count(tail, "/"))+1)
	for segment := range strings.SplitSeq(tail, "/") {
		b = appendUnescaped(b, segment, url.PathUnescape)
	}
	return b
}

// unescape decodes s, or returns it as it stands and false if it does not
// decode.
func unescape(s string, decode func(string) (string, error)) (string, bool) {
	decoded, err := decode(s)
	if err != nil {
		return s, false
	}
	return decoded, true
}

func appendUnescaped(b []byte, s string, decode func(string) (string, error)) []byte {
	decoded, ok := unescape(s, decode)
	if ok {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return appendFramed(b, decoded)
}

// appendQuery appends the pairs of a query ordered by name; those of one name
// keep their order. Values stay as they are escaped: in an exploded list 1,2
// and 1%2C2 are different.
func appendQuery(b []byte, rule *FingerprintRule, raw string) []byte {
	type pair struct{ name, rawName, value string }
	var array [8]pair
	pairs := array[:0]
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		var p pair
		p.rawName, p.value, _ = strings.Cut(part, "=")
		p.name, _ = unescape(p.rawName, url.QueryUnescape)
		if rule.counts(queryEntry, p.name, func(a, b string) bool { return a == b }) {
			pairs = append(pairs, p)
		}
	}
	slices.SortStableFunc(pairs, func(x, y pair) int { return cmp.Compare(x.name, y.name) })
	b = binary.AppendUvarint(b, uint64(len(pairs)))
	for _, p := range pairs {
		b = appendFramed(appendUnescaped(b, p.rawName, url.QueryUnescape), p.value)
	}
	return b
}

// appendHeaders appends the declared header parameters that were sent. One
// that was not sent leaves no trace, so that a parameter which a new version
// of the spec declares does not change requests without it.
func appendHeaders(b []byte, op *Operation, header http.Header) []byte {
	for _, name := range op.Parameters.Headers {
		name = http.CanonicalHeaderKey(name)
		if lines := header[name]; op.Fingerprint.counts(headerEntry, name, strings.EqualFold) {
			b = appendLines(b, name, lines)
		}
	}
	return append(b, 0)
}

// appendCookies appends the values of the declared cookie parameters that were
// sent, those too that net/http drops, since another server may take them.
func appendCookies(b []byte, op *Operation, header http.Header) []byte {
	if len(op.Parameters.Cookies) > 0 && len(op.Fingerprint.Include) == 0 {
		for _, name := range op.Parameters.Cookies {
			b = appendLines(b, name, cookies(header, name))
		}
	}
	return append(b, 0)
}

// cookies returns the values of the cookies of a name, without the quotes around
// them (RFC 6265 section 4.2).
func cookies(header http.Header, name string) (values []string) {
	for _, line := range header["Cookie"] {
		for pair := range strings.SplitSeq(line, ";") {
			got, value, _ := strings.Cut(textproto.TrimString(pair), "=")
			if textproto.TrimString(got) != name {
				continue
			}
			if inner, ok := strings.CutPrefix(value, `"`); ok && strings.HasSuffix(inner, `"`) {
				value = strings.TrimSuffix(inner, `"`)
			}
			values = append(values, value)
		}
	}
	return values
}

// appendLines appends a name and its values, or nothing where there are none.
// What it appends never begins with 0.
func appendLines(b []byte, name string, values []string) []byte {
	if len(values) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(values)))
	b = appendFramed(b, name)
	for _, v := range values {
		b = appendFramed(b, v)
	}
	return b
}

// The forms in which a body is hashed.
const (
	noBody        = 'n'
	canonicalBody = 'j'
	multipartBody = 'm'
	rawBody       = 'r'
)

// appendBody appends the media type and the body, unless the rule includes
// nothing of it. It comes last, so the body needs no frame.
func (s *fingerprintScratch) appendBody(b []byte, op *Operation, in fingerprintInput) ([]byte, error) {
	pointers, include := op.pointers()
	kind, typeVisible := bodyOf(op, in.ContentType)
	whole := appendContentType(b, op, in.ContentType, kind, typeVisible)
	head := len(whole)
	var err error
	switch {
	case len(in.Body) == 0 || kind == BodyJSON && isBlank(in.Body):
		whole = append(whole, noBody) // decoders take a JSON body of white space for none
	case kind == BodyJSON:
		if whole, err = s.json.canonicalize(append(whole, canonicalBody), in.Body, pointers, include); err != nil {
			return b, bodyInvalid("the body is not exactly one JSON value", err)
		}
		if op.Fingerprint.Raw || !onlyJSON(in.ContentType) {
			whole = appendRaw(whole[:head], in.Body)
		}
	case kind == BodyMultipart && !op.Fingerprint.Raw:
		if whole, err = appendMultipart(append(whole, multipartBody), in.ContentType, in.Body); err != nil {
			return b, bodyInvalid("the body is not valid multipart", err)
		}
	case op.Key.Body != "" && !op.Fingerprint.Raw && isForm(op, in.ContentType):
		whole = appendRaw(whole, withoutFormValue(in.Body, op.Key.BodyPath()[0]))
	default:
		whole = appendRaw(whole, in.Body)
	}
	if include && len(pointers) == 0 {
		return b, nil // nothing of the body counts, but it must be one
	}
	return whole, nil
}

// appendRaw appends the hash of a body, rather than a copy of a large one.
func appendRaw(b, body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(append(b, rawBody), sum[:]...)
}

func bodyInvalid(detail string, err error) error {
	return &Error{Code: CodeBodyInvalid, Detail: detail, Err: err}
}

// bodyOf returns how a generated server hands over a body, and whether the
// handler sees its whole Content-Type. A server with one declared body takes
// it whatever the Content-Type says. Where several are taken and disagree, the
// body counts as bytes.
func bodyOf(op *Operation, contentType string) (kind BodyKind, typeVisible bool) {
	matched := false
	for _, body := range op.Bodies {
		wild := strings.Contains(body.MediaType, "*")
		typeVisible = typeVisible || wild
		switch {
		case len(op.Bodies) > 1 && !wild && !body.takes(contentType):
			continue
		case !matched:
			kind, matched = body.Kind, true
		case kind != body.Kind:
			kind = BodyRaw
		}
		// JSON, forms and plain text are handed over decoded, all others as a reader
		// beside their Content-Type.
		if body.Kind != BodyJSON && body.MediaType != formType && body.MediaType != "text/plain" {
			typeVisible = true
		}
	}
	return kind, typeVisible
}

// onlyJSON reports whether a server that takes a body of this Content-Type at all
// decodes it as JSON, where the document declares that. Echo and fiber go by the
// Content-Type, and would decode XML or a form.
func onlyJSON(contentType string) bool {
	sent, _, _ := strings.Cut(contentType, ";")
	switch sent = strings.ToLower(strings.TrimSpace(sent)); sent {
	case "", "text/plain", "application/octet-stream": // as careless clients send it
		return true
	}
	return strings.HasSuffix(sent, "/json") || strings.HasSuffix(sent, "+json")
}

// appendContentType appends the media type, in lower case unless its case
// decides which of several bodies the server takes. Parameters count only where
// a handler sees them, and then in any order and with the charset in any case;
// a multipart boundary never counts.
func appendContentType(b []byte, op *Operation, contentType string, kind BodyKind, visible bool) []byte {
	mediaType, tail, _ := strings.Cut(contentType, ";")
	mediaType = strings.TrimSpace(mediaType)
	if len(op.Bodies) < 2 {
		mediaType = strings.ToLower(mediaType)
	}
	b = appendFramed(b, mediaType)
	if !visible || tail == "" {
		return append(b, 0)
	}
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return append(appendLines(b, "", []string{tail}), 0)
	}
	if kind == BodyMultipart {
		delete(parameters, "boundary")
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		value := parameters[name]
		if name == "charset" {
			value = strings.ToLower(value)
		}
		b = appendLines(b, name, []string{value})
	}
	return append(b, 0)
}

// appendMultipart appends the parts in order, each with its headers and its
// content. The boundary and what stands around the parts do not count.
func appendMultipart(b []byte, contentType string, body []byte) ([]byte, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return b, err
	}
	content := sha256.New()
	for reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"]); ; {
		part, err := reader.NextRawPart()
		if err == io.EOF { // one that is wrapped means that the last boundary is missing
			return b, nil
		}
		if err != nil {
			return b, err
		}
		b = append(b, 1)
		for _, name := range slices.Sorted(maps.Keys(part.Header)) {
			b = appendLines(b, name, part.Header[name])
		}
		b = append(b, 0)
		content.Reset()
		if _, err := io.Copy(content, part); err != nil {
			return b, err
		}
		b = content.Sum(b)
	}
}
