package retry

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

func writer(pointer, key string) *keyWriter {
	return &keyWriter{rule: idempotency.KeyRule{Body: pointer}, key: key, same: func(s string) bool { return key != "" && s == key }}
}

// The key is written into what is encoded, and nothing else is touched.
func TestWriteKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ pointer, body, want string }{
		{"/key", `{}`, `{"key":"k1"}`},
		{"/key", ` { } `, ` { "key":"k1"} `},
		{"/key", ``, `{"key":"k1"}`},
		{"/key", `null`, `{"key":"k1"}`},
		{"/key", `{"a":1}`, `{"a":1,"key":"k1"}`},
		{"/key", "{\n \"a\" : 1.0e5\n}\n", "{\n \"a\" : 1.0e5\n,\"key\":\"k1\"}\n"},
		{"/key", `{"key" : "" , "a":[1, 2]}`, `{"key" : "k1" , "a":[1, 2]}`},
		{"/key", `{"a":"<", "key": null}`, `{"a":"<", "key": "k1"}`},
		{"/key", `{"key":"00000000-0000-0000-0000-000000000000"}`, `{"key":"k1"}`},
		{"/key", `{"key": "\u006b1"}`, `{"key": "\u006b1"}`},
		{"/a/b/key", `{"x":0}`, `{"x":0,"a":{"b":{"key":"k1"}}}`},
		{"/a/b/key", `{"a":null,"x":0}`, `{"a":{"b":{"key":"k1"}},"x":0}`},
		{"/a/b/key", `{"a":{"b":{"y":"}"}},"x":0}`, `{"a":{"b":{"y":"}","key":"k1"}},"x":0}`},
		{"/a~1b/~0", `{"a/b":{}}`, `{"a/b":{"~":"k1"}}`},

		{"/key", `{"key":"k2"}`, "error"},
		{"/key", `{"key":1}`, "error"},
		{"/key", `{"Key":"k1"}`, "error"},
		{"/key", `{"key":"k1","key":"k1"}`, "error"},
		{"/key", `{"key":"k1","KEY":""}`, "error"},
		{"/key", `[]`, "error"},
		{"/key", `"text"`, "error"},
		{"/key", `{"a":1`, "error"},
		{"/key", `{"a":1,}`, "error"},
		{"/key", `nonsense`, "error"},
		{"/a/key", `{"a":[{}]}`, "error"},
		{"/a/key", `{"a":"text"}`, "error"},
		{"/a/key", `{"A":{}}`, "error"},
		{"/a/key", `{"a":{},"a":{}}`, "error"},
	} {
		got, err := writer(test.pointer, "k1").body("application/json", []byte(test.body))
		if err != nil {
			got = []byte("error")
		}
		if string(got) != test.want {
			t.Errorf("%s in %s: %s, %v; want %s", test.pointer, test.body, got, err, test.want)
			continue
		}
		if again, err := writer(test.pointer, "k1").body("application/json", got); test.want != "error" && (err != nil || !bytes.Equal(again, got)) {
			t.Errorf("written again: %s, %v; want %s", again, err, got)
		}
	}
}

// Without a key a body stays as it is, and may hold none.
func TestWriteNoKey(t *testing.T) {
	t.Parallel()
	for body, fine := range map[string]bool{
		`{}`: true, ``: true, `null`: true, `{"a":1}`: true, `{"key":null}`: true,
		`{"key":"k1"}`: false, `{"KEY":"k1"}`: false,
	} {
		got, err := writer("/key", "").body("application/json", []byte(body))
		if fine != (err == nil) || fine && string(got) != body {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}

func TestWriteKeyIntoForm(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":             "key=k%261",
		"a=b":          "a=b&key=k%261",
		"key=&a=b":     "a=b&key=k%261",
		"key=k%261":    "key=k%261",
		"Key=x":        "Key=x&key=k%261",
		"key=k2":       "error",
		"key=&key=":    "error",
		"a=%zz":        "error",
		"key=k%261&a=": "key=k%261&a=",
	} {
		got, err := writer("/key", "k&1").body("application/x-www-form-urlencoded", []byte(body))
		if err != nil {
			got = []byte("error")
		}
		if string(got) != want {
			t.Errorf("%s: %s, %v; want %s", body, got, err, want)
		}
	}
}

// FuzzWriteKey compares what is written with what encoding/json reads: the key
// at its place, and all else as it was.
func FuzzWriteKey(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"meta":{}}`, `{"meta":null}`, `{"meta":{"key":""}, "a":[{}]}`, `null`, ``, `[1]`, `{"Meta":{}}`, `{"meta":{"KEY":1}}`,
		`{"meta":{"key":"k1"},"meta":1}`, "{\"a\xff\":1}", `{"a":1e999}`, ` {"a" : "\ud800" } x`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := writer("/meta/key", "k1").body("application/json", bytes.Clone(body))
		if err != nil {
			return
		}
		if blank := strings.Trim(string(body), " \t\r\n"); blank == "" {
			body = []byte("{}")
		}
		if json.Valid(got) != json.Valid(body) {
			t.Fatalf("%s becomes %s", body, got)
		}
		if !json.Valid(got) {
			return // bytes after the value, as they were
		}
		before, after := decode(t, body), decode(t, got)
		meta, _ := after["meta"].(map[string]any)
		if meta["key"] != "k1" {
			t.Fatalf("%s becomes %s", body, got)
		}
		delete(meta, "key")
		if was, ok := before["meta"].(map[string]any); ok {
			delete(was, "key")
		} else if len(meta) == 0 {
			delete(after, "meta")
			delete(before, "meta")
		}
		if before == nil {
			before = map[string]any{}
		}
		if !reflect.DeepEqual(before, after) {
			t.Fatalf("%s becomes %s", body, got)
		}
	})
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var object map[string]any
	if err := d.Decode(&object); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return object
}
