package retry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// keyWriter writes a key into the bodies of its operation.
type keyWriter struct {
	rule idempotency.KeyRule
	key  string            // "" for none
	same func(string) bool // reports whether a text names the key
}

// write puts the key into the body of a request. All else in the body stays as
// it was encoded, byte for byte.
func (k *keyWriter) write(request *http.Request) error {
	if request.GetBody == nil {
		if k.key == "" {
			return nil
		}
		return errors.New("the request has no body, which is where its key belongs")
	}
	body, err := request.GetBody()
	if err != nil {
		return err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if data, err = k.body(request.Header.Get("Content-Type"), data); err != nil {
		return err
	}
	request.ContentLength = int64(len(data))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	request.Body, err = request.GetBody()
	return err
}

// check returns an error unless the body of a request, which a request editor
// has put in place, holds the key as it was written.
func (k *keyWriter) check(request *http.Request) error {
	if request.Body == nil {
		return errors.New("the body, which holds the key, is gone")
	}
	data, err := io.ReadAll(request.Body)
	if err != nil {
		return err
	}
	request.Body = io.NopCloser(bytes.NewReader(data))
	with, err := k.body(request.Header.Get("Content-Type"), data)
	if err == nil && !bytes.Equal(with, data) {
		err = errors.New("the key in the body is gone")
	}
	return err
}

// body returns a body with the key in it: the same, if it has it already.
func (k *keyWriter) body(contentType string, data []byte) ([]byte, error) {
	if strings.HasPrefix(contentType, "application/x-www-form-urlencoded") {
		return k.form(data, k.rule.BodyPath()[0])
	}
	return k.value(data, k.rule.BodyPath())
}

// whiteSpace is that of JSON (RFC 8259 section 2).
const whiteSpace = " \t\r\n"

// value returns a JSON value with the key at path. Null and an object that is
// missing become objects.
func (k *keyWriter) value(data []byte, path []string) ([]byte, error) {
	trimmed := bytes.Trim(data, whiteSpace)
	blank := len(trimmed) == 0 || string(trimmed) == "null"
	switch {
	case blank && k.key == "":
		return data, nil
	case len(path) == 0 && blank:
		return json.Marshal(k.key)
	case len(path) == 0:
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return nil, fmt.Errorf("the member %s of the body, which holds the key, is no string", k.rule.Body)
		}
		if k.isUnset(text) {
			return json.Marshal(k.key)
		}
		return data, k.checkGiven(text)
	case blank:
		data = []byte("{}")
	}
	start, end, err := findMember(data, path[0])
	if err != nil {
		return nil, fmt.Errorf("the key cannot be written to the member %s of the body: %w", k.rule.Body, err)
	}
	member, err := k.value(data[start:end], path[1:])
	if err != nil {
		return nil, err
	}
	if start == end && len(member) > 0 {
		name, err := json.Marshal(path[0])
		if err != nil {
			return nil, err
		}
		member = slices.Concat(name, []byte(":"), member)
		if before := bytes.TrimRight(data[:start], whiteSpace); before[len(before)-1] != '{' {
			member = slices.Concat([]byte(","), member)
		}
	}
	return slices.Concat(data[:start], member, data[end:]), nil
}

// findMember returns where in a JSON object the value of a member is; where it
// would begin and end, if there is none. A name that a server could take for the
// member's is an error.
func findMember(object []byte, name string) (start, end int, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return 0, 0, errors.New("there is no object around it")
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return 0, 0, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return 0, 0, err
		}
		got, _ := token.(string)
		switch {
		case !strings.EqualFold(got, name):
		case got != name || end > 0:
			return 0, 0, fmt.Errorf("there is a member %q already", got)
		default:
			end = int(d.InputOffset())
			start = end - len(value)
		}
	}
	if _, err := d.Token(); err != nil {
		return 0, 0, err
	}
	if end == 0 {
		end = int(d.InputOffset()) - 1
		start = end
	}
	return start, end, nil
}

// form returns a form with the key as the value of a name.
func (k *keyWriter) form(data []byte, name string) ([]byte, error) {
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, err
	}
	switch given := values[name]; {
	case len(given) > 1:
		return nil, fmt.Errorf("the key cannot be written to the member %s of the body: there are %d already", k.rule.Body, len(given))
	case len(given) == 1 && !k.isUnset(given[0]):
		return data, k.checkGiven(given[0])
	case k.key == "":
		return data, nil
	}
	values.Set(name, k.key)
	return []byte(values.Encode()), nil
}

// isUnset reports whether a text is what the member is when nobody has set it.
func (k *keyWriter) isUnset(text string) bool { return text == "" || text == noUUID }

// checkGiven refuses a key that the caller has put into the body, and that is
// not the request's.
func (k *keyWriter) checkGiven(text string) error {
	if k.same(text) {
		return nil
	}
	return fmt.Errorf("the member %s of the body is not the request's key; leave it out", k.rule.Body)
}
