package idempotency

import (
	"fmt"
	"strings"

	"github.com/dunglas/httpsfv"
)

// defaultMaxKeyLength is the longest key of an operation that sets no limit.
const defaultMaxKeyLength = 255

// maxLength returns the longest valid key in bytes.
func (r KeyRule) maxLength() int {
	if r.MaxLength > 0 {
		return r.MaxLength
	}
	return defaultMaxKeyLength
}

// header returns the name of the key's header field.
func (r KeyRule) header() string {
	if r.Header != "" {
		return r.Header
	}
	return "Idempotency-Key"
}

// normalizeKey returns the key that a header field's lines name. It returns
// an [*Error] with [CodeKeyMissing] for no line, and one with [CodeKeyInvalid]
// for more than one, be they equal or not, and for a line that [parseKey]
// refuses.
func normalizeKey(rule KeyRule, lines []string) (string, error) {
	switch len(lines) {
	case 1:
		return parseKey(rule, lines[0])
	case 0:
		return "", &Error{Code: CodeKeyMissing, Detail: "the header " + rule.header() + " is required: send a key of your choice, and the same one with every retry"}
	}
	return "", rule.invalidKey("is sent more than once")
}

// parseKey returns the key that s names: 1 to [KeyRule.MaxLength] bytes of
// 0x21 to 0x7E. In a body s is the key as it stands. In a header, an s that
// begins with a quote is an RFC 9651 Item of type String, whose parameters are
// ignored and whose content is the key; any other s is the key as it stands, and
// holds no quote and no comma, because a joined list of two lines cannot be told
// from one with a comma. UUIDs come back in lower case. A refusal is an [*Error]
// with [CodeKeyInvalid] that does not repeat s.
func parseKey(rule KeyRule, s string) (string, error) {
	key := s
	inBody := rule.Body != ""
	quoted := !inBody && strings.HasPrefix(s, `"`)
	if quoted {
		item, err := httpsfv.UnmarshalItem([]string{s})
		content, ok := item.Value.(string)
		if err != nil || !ok || strings.HasSuffix(s, " ") {
			return "", rule.invalidKey("begins with a quote but is not a string of RFC 9651")
		}
		key = content
	}
	if key == "" {
		return "", rule.invalidKey("is empty")
	}
	if maximum := rule.maxLength(); len(key) > maximum {
		return "", rule.invalidKey(fmt.Sprintf("is %d bytes long, the limit is %d", len(key), maximum))
	}
	for i := range len(key) {
		switch c := key[i]; {
		case c < 0x21 || c > 0x7e:
			return "", rule.invalidKey("holds a byte that is not visible ASCII (0x21 to 0x7E)")
		case !inBody && !quoted && (c == '"' || c == ','):
			return "", rule.invalidKey(fmt.Sprintf("holds a quote or a comma: a key is 1 to %d bytes of other visible ASCII, or a quoted string (RFC 9651)", rule.maxLength()))
		}
	}
	switch rule.Format {
	case KeyUUID:
		if !isUUID(key) {
			return "", rule.invalidKey("must be a UUID")
		}
		return strings.ToLower(key), nil
	case KeyUUIDv7:
		if _, ok := uuidv7Time(key); !ok {
			return "", rule.invalidKey("must be a UUIDv7 (RFC 9562)")
		}
		return strings.ToLower(key), nil
	}
	return key, nil
}

// spellKey returns the spelling of a key that [parseKey] reads back: the key
// itself, or an RFC 9651 String for one that may not stand bare.
func spellKey(rule KeyRule, key string) string {
	if rule.Body != "" || !strings.ContainsAny(key, `",`) {
		return key
	}
	return `"` + quoteEscapes.Replace(key) + `"`
}

var quoteEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// invalidKey refuses a key, for what is wrong with it. It names the member of the
// body that should hold the key; callers know their header.
func (r KeyRule) invalidKey(what string) error {
	key := "the idempotency key "
	if r.Body != "" {
		key += "in " + r.Body + " "
	}
	return &Error{Code: CodeKeyInvalid, Detail: key + what}
}
