package idempotency

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// BodyPath returns the names that lead to the member of the body that holds the
// key, the outermost first, and nil where a header holds it. It is for package
// retry.
func (r KeyRule) BodyPath() []string {
	if r.Body == "" {
		return nil
	}
	path := strings.Split(r.Body[1:], "/")
	for i, name := range path {
		path[i] = pointerEscapes.Replace(name)
	}
	return path
}

// formType is the media type of bodies that hold names and values (URL Standard
// section 5).
const formType = "application/x-www-form-urlencoded"

// isForm reports whether the generated server decodes the body as a form.
func isForm(op *Operation, contentType string) bool {
	for _, body := range op.Bodies {
		if body.MediaType == formType && (len(op.Bodies) == 1 || body.takes(contentType)) {
			return true
		}
	}
	return false
}

// bodyKey returns the key that the body holds, and "" where it holds none. A
// body that does not parse is left to the server's decoder, and noted: whether
// it holds a key is not known, so nothing may run for it.
func (c *Call) bodyKey() (string, error) {
	contentType := c.ContentType()
	if kind, _ := bodyOf(c.op, contentType); kind == BodyJSON {
		return c.jsonKey()
	}
	if !isForm(c.op, contentType) {
		return "", nil
	}
	return c.formKey()
}

// formKey reads the key from a form. Every name that a server could take for the
// key's is refused: net/http looks into the query too, and fiber ignores letter
// case and brackets, and has names of Go for what the document only refers to.
func (c *Call) formKey() (string, error) {
	contentType := c.ContentType()
	spelt := strings.HasPrefix(contentType, formType) && Body{MediaType: formType}.is(contentType)
	if len(c.body) > 0 && !spelt {
		c.unread = bodyInvalid("the body holds the key, and is not sent as "+formType, nil)
		return "", nil
	}
	values, err := url.ParseQuery(string(c.body))
	if err != nil {
		c.unread = bodyInvalid("the body is not a valid form", err)
		return "", nil
	}
	name := c.op.Key.BodyPath()[0]
	if c.request.URL.Query().Has(name) {
		return "", c.op.Key.invalidKey("belongs in the body, and its name stands in the query")
	}
	for got := range values {
		if got != name && strings.EqualFold(lettersOf.Replace(got), lettersOf.Replace(name)) {
			return "", c.op.Key.invalidKey("stands in the body under another spelling of its name")
		}
	}
	switch sent := values[name]; len(sent) {
	case 0:
		return "", nil
	case 1:
		return parseKey(c.op.Key, sent[0])
	}
	return "", c.op.Key.invalidKey("is sent more than once")
}

var lettersOf = strings.NewReplacer("[", "", "]", "", "-", "", "_", "")

// jsonKey reads the key from a JSON body. What the canonical form has at the
// key's place is every member that encoding/json could take for it, and nothing
// else: anything but one member of exactly the right name is refused.
func (c *Call) jsonKey() (string, error) {
	if isBlank(c.body) {
		return "", nil
	}
	// Of several media types some servers know only the declared spelling.
	spelt := len(c.op.Bodies) == 1 || slices.ContainsFunc(c.op.Bodies, func(b Body) bool { return strings.HasPrefix(c.ContentType(), b.MediaType) })
	if !spelt || !onlyJSON(c.ContentType()) {
		c.unread = bodyInvalid("the body holds the key, and is not sent as "+c.op.Bodies[0].MediaType, nil)
		return "", nil
	}
	s := fingerprintScratches.Get().(*fingerprintScratch) //nolint:forcetypeassert // it holds nothing else
	defer s.release(len(c.body))
	var err error
	if s.frame, err = s.json.canonicalize(s.frame[:0], c.body, []string{c.op.Key.Body}, true); err != nil {
		c.unread = bodyInvalid("the body is not exactly one JSON value", err)
		return "", nil
	}
	content, found, problem := onlyMember(s.frame, c.op.Key.BodyPath())
	switch {
	case problem != "":
		return "", c.op.Key.invalidKey(problem)
	case !found:
		return "", nil
	}
	return parseKey(c.op.Key, string(content))
}

// onlyMember returns the content of the string at path, in a canonical form
// that holds nothing but what could be there. It is not found where it or an
// object around it is missing or null.
func onlyMember(form []byte, path []string) (content []byte, found bool, problem string) {
	depth := 0
	for _, name := range path {
		if form[0] != '{' {
			break
		}
		form = form[1:]
		depth++
		if form[0] == '}' {
			break
		}
		got, value, _ := bytes.Cut(form[1:], []byte{valueEnd})
		if string(got) != name {
			return nil, false, "stands in the body under a name in another letter case"
		}
		form = value
	}
	switch {
	case form[0] == 'n':
		form = form[1:]
	case form[0] == '}': // missing
	case depth < len(path):
		return nil, false, "must be a member of an object in the body"
	case form[0] != '"':
		return nil, false, "is no JSON string"
	default:
		content, form, _ = bytes.Cut(form[1:], []byte{valueEnd})
		found = true
	}
	if len(bytes.TrimLeft(form, "}")) > 0 {
		return nil, false, "stands in the body more than once"
	}
	return content, found, ""
}

// withoutFormValue returns a form's bytes without the values of a name.
func withoutFormValue(form []byte, name string) []byte {
	var rest [][]byte
	for pair := range bytes.SplitSeq(form, []byte("&")) {
		raw, _, _ := bytes.Cut(pair, []byte("="))
		if got, ok := unescape(string(raw), url.QueryUnescape); !ok || got != name {
			rest = append(rest, pair)
		}
	}
	return bytes.Join(rest, []byte("&"))
}

// isBlank reports whether decoders take a JSON body for none.
func isBlank(body []byte) bool { return len(bytes.TrimLeft(body, " \t\r\n")) == 0 }

// missingKey tells a caller how to send a key, with a hint when a header that
// is nearly the right one came along (PRO-10).
func missingKey(rule KeyRule, header http.Header) string {
	place, name, hint := "the "+rule.header()+" header", rule.header(), "is not that header"
	if path := rule.BodyPath(); path != nil {
		place, name, hint = "the member "+rule.Body+" of the body", path[len(path)-1], "is a header, where no key is looked for"
	}
	detail := "send a unique key in " + place + ", and the same key with every retry"
	want := plainName(name)
	for sent := range header {
		if plain := plainName(sent); plain == want || plain == "x"+want || "x"+plain == want {
			return detail + "; " + sent + " " + hint
		}
	}
	return detail
}

func plainName(s string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(s))
}
