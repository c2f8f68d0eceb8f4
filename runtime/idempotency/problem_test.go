package idempotency_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

const problemTypes = "https://github.com/idemgen/idemgen/blob/main/docs/problems.md#"

// A client reads the refusal that a server has written.
func TestReadProblemReadsWhatIsWritten(t *testing.T) {
	t.Parallel()
	for _, code := range codes {
		want := idempotency.Problem{
			Type: problemTypes + string(code), Title: "A title", Status: 409, Detail: `a "detail"`,
			Code: code, Retryable: true, RetryAfter: 3 * time.Second,
		}
		w := httptest.NewRecorder()
		idempotency.WriteProblem(w, nil, want)
		if got, ok := idempotency.ReadProblem(w.Header(), w.Body.Bytes()); !ok || got != want {
			t.Errorf("%+v, %t, want %+v", got, ok, want)
		}
	}
}

// Answers that are no refusal of an idempotent server are not read as one, and
// odd fields of one do no harm.
func TestReadProblem(t *testing.T) {
	t.Parallel()
	const (
		media = "application/problem+json"
		ours  = `{"type":"` + problemTypes + `mismatch","code":"mismatch","status":422}`
	)
	for _, c := range []struct {
		contentType, body string
		want              bool
	}{
		{media, ours, true},
		{"Application/Problem+JSON; charset=utf-8", ours, true},
		{media, `{"type":"` + problemTypes + `new_one","code":"new_one"}`, true}, // of a later server
		{media, ours + "\n", true},
		{"application/json", ours, false},
		{"", ours, false},
		{";", ours, false},
		{media, "", false},
		{media, ours[:len(ours)-1], false},
		{media, ours + "{}", false},
		{media, "[" + ours + "]", false},
		{media, "null", false},
		{media, `{"code":"mismatch"}`, false},
		{media, `{"type":"about:blank","code":"mismatch"}`, false},
		{media, `{"type":"https://shop.example/mismatch","code":"mismatch"}`, false},
		{media, `{"type":"` + problemTypes + `in_flight","code":"mismatch"}`, false},
		{media, `{"type":"` + problemTypes + `","code":""}`, false},
		{media, `{"type":"` + problemTypes + `"}`, false},
		{media, `{"type":"` + problemTypes + `mismatch","code":7}`, false},
	} {
		if p, ok := idempotency.ReadProblem(http.Header{"Content-Type": {c.contentType}}, []byte(c.body)); ok != c.want {
			t.Errorf("%q %s: %+v, %t", c.contentType, c.body, p, ok)
		}
	}
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "-1": 0, "2": 2 * time.Second, "soon": 0, "99999999999": 0, "Fri, 02 Jan 2026 03:04:15 GMT": 0,
	} {
		p, ok := idempotency.ReadProblem(http.Header{"Content-Type": {media}, "Retry-After": {value}}, []byte(ours))
		if !ok || p.RetryAfter != want {
			t.Errorf("Retry-After %q: %v, %t, want %v", value, p.RetryAfter, ok, want)
		}
	}
}

// Whatever a server sends, a refusal names its code, and is one again when it
// is passed on.
func FuzzReadProblem(f *testing.F) {
	const media = "application/problem+json"
	for _, code := range codes {
		w := httptest.NewRecorder()
		idempotency.WriteProblem(w, nil, idempotency.Problem{Type: problemTypes + string(code), Title: "t", Status: 400, Code: code})
		f.Add(media, "1", w.Body.String())
	}
	f.Add(media+"; charset=utf-8", "", `{"type":"about:blank","code":"mismatch"}`)
	f.Add("text/html", "soon", "<html>")
	f.Add(media, "-1", `{"CODE":"mismatch","Type":"`+problemTypes+`mismatch","status":1e3}`)
	f.Fuzz(func(t *testing.T, contentType, retryAfter, body string) {
		p, ok := idempotency.ReadProblem(http.Header{"Content-Type": {contentType}, "Retry-After": {retryAfter}}, []byte(body))
		if !ok {
			if p != (idempotency.Problem{}) {
				t.Errorf("no refusal, and %+v", p)
			}
			return
		}
		if p.Code == "" || !strings.HasSuffix(p.Type, "#"+string(p.Code)) || p.RetryAfter < 0 {
			t.Errorf("%+v", p)
		}
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		p.RetryAfter = 0
		if again, ok := idempotency.ReadProblem(http.Header{"Content-Type": {media}}, data); !ok || again != p {
			t.Errorf("%+v, %t, want %+v", again, ok, p)
		}
	})
}
