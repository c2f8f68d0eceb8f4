package idempotency

import (
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"reflect"
	"slices"
)

// BodyDecoder reads the body of a call into what v points to. Decoders are
// for generated servers without oapi-codegen's strict server, and read what
// that one would.
type BodyDecoder func(call *Call, v any) error

// DecodeJSON is the [BodyDecoder] of JSON: encoding/json, or what
// [WithJSONDecoder] says.
func DecodeJSON(call *Call, v any) error {
	return call.decodeJSON(call.unreadBody(call.request.WithContext(call.request.Context())), v)
}

func decodeJSON(r *http.Request, v any) error { return json.NewDecoder(r.Body).Decode(v) }

// DecodeText is the [BodyDecoder] of text. v points to a string type.
func DecodeText(call *Call, v any) error {
	reflect.ValueOf(v).Elem().SetString(string(call.body))
	return nil
}

// FormDecoder returns the [BodyDecoder] of forms. bind is BindForm of
// oapi-codegen/runtime.
func FormDecoder[Encoding any](bind func(v any, form map[string][]string, files map[string][]*multipart.FileHeader, encodings map[string]Encoding) error) BodyDecoder {
	return func(call *Call, v any) error {
		r := call.unreadBody(call.request.WithContext(call.request.Context()))
		if err := r.ParseForm(); err != nil {
			return err
		}
		return bind(v, r.Form, nil, nil)
	}
}

// DecodePointer sets v to what decode reads, and leaves it nil where there is
// no body and none is required.
func DecodePointer[T any](call *Call, v **T, required bool, decode BodyDecoder) error {
	if !required && len(call.body) == 0 {
		return nil
	}
	body := new(T)
	switch err := decode(call, body); {
	case !required && errors.Is(err, io.EOF): // white space
		return nil
	case err != nil:
		return err
	}
	*v = body
	return nil
}

// Is reports whether the body is of one of these media types. image/* stands
// for all that begin so.
func (c *Call) Is(mediaTypes ...string) bool {
	return slices.ContainsFunc(mediaTypes, func(m string) bool { return Body{MediaType: m}.is(c.ContentType()) })
}
