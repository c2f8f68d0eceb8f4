package idempotency

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

const jsonType = "application/json"

// transferOperation declares one of everything that counts.
func transferOperation() *Operation {
	return &Operation{
		ID:         "createTransfer",
		Method:     "POST",
		Path:       "/accounts/{account}/transfers",
		Parameters: Parameters{Headers: []string{"X-Api-Mode", "X-Trace"}, Cookies: []string{"session"}},
		Bodies:     []Body{{MediaType: jsonType, Kind: BodyJSON}},
	}
}

func transferRequest() fingerprintInput {
	return fingerprintInput{
		Method:      "POST",
		EscapedPath: "/v1/accounts/a1/transfers",
		RawQuery:    "dry=0&tag=x&tag=y",
		Header:      http.Header{"X-Api-Mode": {"live"}, "Cookie": {"theme=dark; session=s1"}},
		ContentType: jsonType,
		Body:        []byte(`{"amount":1,"note":null,"to":{"iban":"X","name":"N"}}`),
	}
}

func mustFingerprint(t *testing.T, op *Operation, in fingerprintInput) Fingerprint {
	t.Helper()
	f, err := computeFingerprint(fingerprintVersion, op, in)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// change is a transfer request that differs in one thing.
type change struct {
	name   string
	change func(*fingerprintInput)
}

func body(text string) func(*fingerprintInput) {
	return func(in *fingerprintInput) { in.Body = []byte(text) }
}

func path(p string) func(*fingerprintInput) {
	return func(in *fingerprintInput) { in.EscapedPath = p }
}

func query(q string) func(*fingerprintInput) {
	return func(in *fingerprintInput) { in.RawQuery = q }
}

func contentType(c string) func(*fingerprintInput) {
	return func(in *fingerprintInput) { in.ContentType = c }
}

func header(name string, lines ...string) func(*fingerprintInput) {
	return func(in *fingerprintInput) {
		in.Header = in.Header.Clone()
		in.Header[name] = lines
		if len(lines) == 0 {
			delete(in.Header, name)
		}
	}
}

// requireFingerprints checks which changes keep the fingerprint of a request.
// No two of the others may share one either.
func requireFingerprints(t *testing.T, op *Operation, in fingerprintInput, same, different []change) {
	t.Helper()
	want := mustFingerprint(t, op, in)
	seen := map[Fingerprint]string{want: "the request itself"}
	for _, c := range same {
		changed := in
		c.change(&changed)
		if mustFingerprint(t, op, changed) != want {
			t.Errorf("%s: changes the fingerprint", c.name)
		}
	}
	for _, c := range different {
		changed := in
		c.change(&changed)
		f := mustFingerprint(t, op, changed)
		if first, ok := seen[f]; ok {
			t.Errorf("%s: has the fingerprint of %s", c.name, first)
		}
		seen[f] = c.name
	}
}

// Covers FPR-01, FPR-07, FPR-08 and FPR-20.
func TestFingerprintOfBody(t *testing.T) {
	t.Parallel()
	requireFingerprints(t, transferOperation(), transferRequest(), []change{
		{"white space", body(` { "amount" : 1, "note" : null, "to" : { "iban" : "X", "name" : "N" } } `)},
		{"order", body(`{"to":{"name":"N","iban":"X"},"note":null,"amount":1}`)},
		{"number spelling", body(`{"amount":1.0,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"exponent", body(`{"amount":10e-1,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"escapes", body(`{"amount":1,"note":null,"to":{"iban":"\u0058","n\u0061me":"N"}}`)},
	}, []change{
		{"amount", body(`{"amount":2,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"amount as text", body(`{"amount":"1","note":null,"to":{"iban":"X","name":"N"}}`)},
		{"amount by one in 2^53, lower", body(`{"amount":9007199254740992,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"amount by one in 2^53, upper", body(`{"amount":9007199254740993,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"absent for null", body(`{"amount":1,"to":{"iban":"X","name":"N"}}`)},
		{"empty for null", body(`{"amount":1,"note":"","to":{"iban":"X","name":"N"}}`)},
		{"member in another place", body(`{"amount":1,"to":{"iban":"X","name":"N","note":null}}`)},
		{"duplicate that wins", body(`{"amount":1,"note":null,"to":{"iban":"X","name":"N"},"amount":900}`)},
		{"duplicate that loses", body(`{"amount":900,"note":null,"to":{"iban":"X","name":"N"},"amount":1}`)},
		{"case-variant that wins", body(`{"amount":1,"note":null,"to":{"iban":"X","name":"N"},"AMOUNT":900}`)},
		{"case-variant that loses", body(`{"AMOUNT":900,"note":null,"to":{"iban":"X","name":"N"},"amount":1}`)},
		{"no body", body(``)},
		{"null", body(`null`)},
		{"empty object", body(`{}`)},
	})
}

// Covers FPR-09.
func TestFingerprintRefusesWhatFollowsTheBody(t *testing.T) {
	t.Parallel()
	for _, raw := range []bool{false, true} {
		op := transferOperation()
		op.Fingerprint.Raw = raw
		for _, text := range []string{`{"amount":1}{"amount":9}`, `{"amount":1}x`, `{"amount":1`, `{"amount":1},`} {
			in := transferRequest()
			in.Body = []byte(text)
			f, err := computeFingerprint(fingerprintVersion, op, in)
			if !errors.Is(err, &Error{Code: CodeBodyInvalid}) || f != (Fingerprint{}) {
				t.Errorf("raw %v: %s has fingerprint %x, %v", raw, text, f, err)
			}
		}
	}
}

func TestEmptyBodies(t *testing.T) {
	t.Parallel()
	in := transferRequest()
	in.Body = nil
	requireFingerprints(t, transferOperation(), in, []change{
		{"empty", body("")},
		{"white space, which decoders take for none", body(" \r\n")},
	}, []change{{"null", body("null")}})

	text := transferOperation()
	text.Bodies = []Body{{MediaType: "text/plain", Kind: BodyRaw}}
	requireFingerprints(t, text, in, []change{{"empty", body("")}}, []change{{"white space", body(" ")}})
}

// Covers FPR-03 and FPR-19.
func TestFingerprintOfPath(t *testing.T) {
	t.Parallel()
	in := transferRequest()
	in.EscapedPath = "/v1/accounts/a%2Fb/transfers"
	requireFingerprints(t, transferOperation(), in, []change{
		{"hexadecimal digits in lower case", path("/v1/accounts/a%2fb/transfers")},
		{"needless escape", path("/v1/accounts/%61%2Fb/transfers")},
		{"no base path", path("/accounts/a%2Fb/transfers")},
		{"another base path", path("/api/v2/accounts/a%2Fb/transfers")},
	}, []change{
		{"another account", path("/v1/accounts/a%2Fc/transfers")},
		{"slash that separates", path("/v1/accounts/a/b/transfers")},
		{"percent sign itself", path("/v1/accounts/a%252Fb/transfers")},
		{"no slash", path("/v1/accounts/ab/transfers")},
		{"case of the account", path("/v1/accounts/A%2Fb/transfers")},
		{"escape that is none", path("/v1/accounts/a%2/transfers")},
		{"escape that is none, escaped", path("/v1/accounts/a%252/transfers")},
		{"trailing slash", path("/v1/accounts/a%2Fb/transfers/")},
		{"double slash", path("/v1/accounts//transfers")},
	})
}

// Whatever a router makes of a path before it matches it, no parameter drops
// out of the fingerprint.
func TestFingerprintKeepsFirstSegment(t *testing.T) {
	t.Parallel()
	op := &Operation{ID: "createOrder", Path: "/{tenant}/orders"}
	for _, form := range []string{"/%s/orders", "/%s/orders/", "/%s//orders", "//%s/orders", "/%s/./orders", "/%s/x/../orders", "/%s/x/%%2e%%2e/orders", "/base/%s/orders", "%s/orders", "/%s"} {
		one := mustFingerprint(t, op, fingerprintInput{EscapedPath: fmt.Sprintf(form, "t1")})
		if one == mustFingerprint(t, op, fingerprintInput{EscapedPath: fmt.Sprintf(form, "t2")}) {
			t.Errorf("%s: two tenants share a fingerprint", form)
		}
	}
}

// Where a webhook is received, the document does not say: whatever stands in the
// path may be what the handler goes by.
func TestFingerprintOfWholePath(t *testing.T) {
	t.Parallel()
	op := transferOperation()
	op.Path = "webhook transfer"
	in := transferRequest()
	in.EscapedPath = "/hooks/t1/payments"
	requireFingerprints(t, op, in, []change{
		{"needless escape", path("/hooks/%741/payments")},
	}, []change{
		{"another tenant", path("/hooks/t2/payments")},
		{"another base path", path("/v2/hooks/t1/payments")},
		{"no base path", path("/t1/payments")},
		{"double slash", path("/hooks//t1/payments")},
		{"none", path("")},
	})
}

func TestFingerprintOfQuery(t *testing.T) {
	t.Parallel()
	in := transferRequest()
	in.RawQuery = "dry=0&tag=1,2&tag=y"
	requireFingerprints(t, transferOperation(), in, []change{
		{"order of names", query("tag=1,2&dry=0&tag=y")},
		{"empty pairs", query("&dry=0&&tag=1,2&tag=y&")},
		{"escaped name", query("dry=0&t%61g=1,2&tag=y")},
	}, []change{
		{"none", query("")},
		{"value", query("dry=1&tag=1,2&tag=y")},
		{"order of values", query("dry=0&tag=y&tag=1,2")},
		{"one value less", query("dry=0&tag=1,2")},
		{"escaped comma", query("dry=0&tag=1%2C2&tag=y")},
		{"two values for a list", query("dry=0&tag=1&tag=2&tag=y")},
		{"another name", query("dry=0&tag=1,2&tog=y")},
		{"name in capitals", query("Dry=0&tag=1,2&tag=y")},
		{"name and value run together", query("dry0=&tag=1,2&tag=y")},
		{"semicolon", query("dry=0;tag=1,2&tag=y")},
		{"name that does not decode", query("dry%=0&tag=1,2&tag=y")},
		{"its text, decoded", query("dry%25=0&tag=1,2&tag=y")},
	})
}

func TestFingerprintOfHeadersAndCookies(t *testing.T) {
	t.Parallel()
	requireFingerprints(t, transferOperation(), transferRequest(), []change{
		{"header that is not declared", header("User-Agent", "x")},
		{"key", header("Idempotency-Key", "k1")},
		{"cookie that is not declared", header("Cookie", "session=s1; theme=light; a=b")},
		{"cookies on two lines", header("Cookie", "theme=dark", "session=s1")},
		{"quoted cookie", header("Cookie", `session="s1"`)},
		{"space around a cookie", header("Cookie", "a=b;  session=s1 ;c=d")},
	}, []change{
		{"header", header("X-Api-Mode", "test")},
		{"header absent", header("X-Api-Mode")},
		{"header empty", header("X-Api-Mode", "")},
		{"header twice", header("X-Api-Mode", "live", "live")},
		{"other header with the value", func(in *fingerprintInput) { in.Header = http.Header{"X-Trace": {"live"}, "Cookie": {"session=s1"}} }},
		{"second header", header("X-Trace", "t")},
		{"cookie", header("Cookie", "session=s2")},
		{"cookie absent", header("Cookie", "theme=dark")},
		{"cookie empty", header("Cookie", "session=")},
		{"cookie twice", header("Cookie", "session=s1; session=s2")},
		{"cookie that net/http drops", header("Cookie", `session=s\1`)},
		{"another one", header("Cookie", "session=s\xff")},
		{"cookie with half a quote", header("Cookie", `session="s1`)},
		{"space within a cookie", header("Cookie", "session= s1")},
	})
}

func TestFingerprintOfOperationAndMethod(t *testing.T) {
	t.Parallel()
	requireFingerprints(t, transferOperation(), transferRequest(), nil, []change{
		{"method", func(in *fingerprintInput) { in.Method = "PUT" }},
		{"method and operation run together", func(in *fingerprintInput) { in.Method = "POSTc" }},
	})
	other := transferOperation()
	other.ID = "createOther"
	if mustFingerprint(t, other, transferRequest()) == mustFingerprint(t, transferOperation(), transferRequest()) {
		t.Error("two operations share a fingerprint")
	}
}

// Covers GEN-24.
func TestFingerprintOfMediaType(t *testing.T) {
	t.Parallel()
	requireFingerprints(t, transferOperation(), transferRequest(), []change{
		{"charset", contentType("application/json; charset=utf-8")},
		{"case", contentType("Application/JSON;charset=UTF-8")},
		{"space", contentType("application/json ; charset=utf-8")},
		{"a parameter that does not parse", contentType("application/json; =")},
	}, []change{
		{"type", contentType("application/vnd.x+json")},
		{"none", contentType("")},
	})

	// A handler that reads the bytes sees their Content-Type.
	binary := transferOperation()
	binary.Bodies = []Body{{MediaType: "application/octet-stream", Kind: BodyRaw}}
	in := transferRequest()
	in.ContentType = `application/octet-stream; version=1; charset=utf-8`
	requireFingerprints(t, binary, in, []change{
		{"order, case and quotes", contentType(`Application/octet-stream;CHARSET="UTF-8" ; version=1`)},
	}, []change{
		{"version", contentType("application/octet-stream; version=2; charset=utf-8")},
		{"charset", contentType("application/octet-stream; version=1; charset=latin1")},
		{"no parameter", contentType("application/octet-stream")},
		{"a parameter that does not parse", contentType("application/octet-stream; version=1; charset")},
		{"another that does not parse", contentType("application/octet-stream; version=2; charset")},
	})

	// A server with several bodies finds the one that was sent with regard to
	// case, and hands over none where it finds none.
	several := transferOperation()
	several.Bodies = append(several.Bodies, Body{MediaType: "text/plain", Kind: BodyRaw})
	in.ContentType = "text/plain"
	requireFingerprints(t, several, in, []change{
		{"charset", contentType("text/plain; charset=utf-8")},
	}, []change{
		{"case", contentType("Text/Plain")},
	})
}

// A declared media type with a wildcard shows the handler what was sent, but
// the boundary is the sender's accident.
func TestFingerprintOfMaskedMediaType(t *testing.T) {
	t.Parallel()
	op := uploadOperation()
	op.Bodies[0].MediaType = "multipart/*"
	send := func(boundary, contentType string) change {
		return change{contentType, func(in *fingerprintInput) {
			multipartBodyOf(t, boundary, part{textproto.MIMEHeader{"A": {"b"}}, "1"})(in)
			in.ContentType = contentType
		}}
	}
	var in fingerprintInput
	send("one", "multipart/mixed; boundary=one; kind=x").change(&in)
	requireFingerprints(t, op, in,
		[]change{send("two", "multipart/mixed; boundary=two; kind=x")},
		[]change{send("one", "multipart/related; boundary=one; kind=x"), send("one", "multipart/mixed; boundary=one; kind=y")})
}

// A body counts in the form in which the generated server hands it over.
func TestBodyOf(t *testing.T) {
	t.Parallel()
	var (
		jsonBody  = Body{MediaType: jsonType, Kind: BodyJSON}
		patchBody = Body{MediaType: "application/json-patch+json", Kind: BodyJSON}
		formBody  = Body{MediaType: "application/x-www-form-urlencoded", Kind: BodyRaw}
		partsBody = Body{MediaType: "multipart/form-data", Kind: BodyMultipart}
		anyBody   = Body{MediaType: "*/*", Kind: BodyRaw}
	)
	for _, test := range []struct {
		bodies      []Body
		contentType string
		kind        BodyKind
		typeVisible bool
	}{
		{nil, jsonType, BodyRaw, false},
		{[]Body{jsonBody}, jsonType, BodyJSON, false},
		{[]Body{jsonBody}, "text/plain", BodyJSON, false},
		{[]Body{jsonBody}, "", BodyJSON, false},
		{[]Body{anyBody}, jsonType, BodyRaw, true},
		{[]Body{jsonBody, formBody}, "application/json; charset=utf-8", BodyJSON, false},
		{[]Body{jsonBody, formBody}, "application/x-www-form-urlencoded", BodyRaw, false},
		{[]Body{jsonBody, formBody}, "Application/JSON ; charset=utf-8", BodyJSON, false},
		{[]Body{jsonBody, patchBody}, "application/json-patch+json", BodyJSON, false},
		{[]Body{jsonBody, partsBody}, "multipart/form-data; boundary=x", BodyMultipart, true},
		{[]Body{jsonBody, anyBody}, jsonType, BodyRaw, true},
		{[]Body{anyBody, partsBody}, "multipart/form-data; boundary=x", BodyRaw, true},
		{[]Body{jsonBody, {MediaType: "application/pdf", Kind: BodyRaw}}, "application/pdf", BodyRaw, true},
		{[]Body{jsonBody, {MediaType: "application/pdf", Kind: BodyRaw}}, jsonType, BodyJSON, false},
	} {
		kind, visible := bodyOf(&Operation{Bodies: test.bodies}, test.contentType)
		if kind != test.kind || visible != test.typeVisible {
			t.Errorf("%v with %q: kind %d, type visible %v", test.bodies, test.contentType, kind, visible)
		}
	}
}

// A server that goes by the Content-Type sees more than the values of a body that
// is not sent as JSON: its bytes count, which must be one value nevertheless.
func TestFingerprintOfJSONSentAsAnother(t *testing.T) {
	t.Parallel()
	for media, wantSame := range map[string]bool{
		"": true, jsonType: true, "Application/Vnd.X+JSON ; a=b": true,
		"text/plain; charset=UTF-8": true, "application/octet-stream": true,
		"application/xml": false, "application/json+xml": false, "text/xml": false, "application/cbor": false, formType: false, "application/xml; a=/json": false,
	} {
		in := transferRequest()
		in.ContentType = media
		other := in
		other.Body = append([]byte(" "), in.Body...)
		if same := mustFingerprint(t, transferOperation(), in) == mustFingerprint(t, transferOperation(), other); same != wantSame {
			t.Errorf("%q: same %t", media, same)
		}
		other.Body = []byte("<x/>")
		if _, err := computeFingerprint(fingerprintVersion, transferOperation(), other); asRefusal(err).Code != CodeBodyInvalid {
			t.Errorf("%q: %v", media, err)
		}
	}
}

func TestFingerprintOfRawBodies(t *testing.T) {
	t.Parallel()
	raw := transferOperation()
	raw.Fingerprint.Raw = true
	in := transferRequest()
	requireFingerprints(t, raw, in, nil, []change{
		{"white space", body(string(in.Body) + "\n")},
		{"number spelling", body(strings.Replace(string(in.Body), "1", "1.0", 1))},
	})
	form := transferOperation()
	form.Bodies = []Body{{MediaType: "application/x-www-form-urlencoded", Kind: BodyRaw}}
	in.ContentType, in.Body = "application/x-www-form-urlencoded", []byte("a=1&b=2")
	requireFingerprints(t, form, in, nil, []change{{"bytes", body("a=1&b=3")}, {"order", body("b=2&a=1")}})
}

type part struct {
	header  textproto.MIMEHeader
	content string
}

func multipartBodyOf(t *testing.T, boundary string, parts ...part) func(*fingerprintInput) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		pw, err := w.CreatePart(p.header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(pw, p.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return func(in *fingerprintInput) { in.ContentType, in.Body = w.FormDataContentType(), b.Bytes() }
}

func uploadOperation() *Operation {
	return &Operation{ID: "upload", Path: "/files", Bodies: []Body{{MediaType: "multipart/form-data", Kind: BodyMultipart}}}
}

// Covers FPR-10.
func TestFingerprintOfMultipart(t *testing.T) {
	t.Parallel()
	field := func(name, content string) part {
		return part{textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name=%q`, name)}}, content}
	}
	file := func(name, typ, content string) part {
		return part{textproto.MIMEHeader{"Content-Disposition": {fmt.Sprintf(`form-data; name="f"; filename=%q`, name)}, "Content-Type": {typ}}, content}
	}
	var in fingerprintInput
	multipartBodyOf(t, "one", field("a", "1"), file("x.txt", "text/plain", "hello\r\n--two\r\n"))(&in)
	reordered := "--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n" +
		"--b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.txt\"\r\n\r\nhello\r\n--two\r\n\r\n--b--\r\n"
	requireFingerprints(t, uploadOperation(), in, []change{
		{"boundary", multipartBodyOf(t, "three", field("a", "1"), file("x.txt", "text/plain", "hello\r\n--two\r\n"))},
		{"order and case of part headers", func(in *fingerprintInput) {
			in.ContentType, in.Body = "multipart/form-data; boundary=b", []byte(reordered)
		}},
		{"preamble and epilogue", func(in *fingerprintInput) {
			in.ContentType, in.Body = "multipart/form-data; boundary=b", []byte("hi\r\n"+reordered+"bye")
		}},
	}, []change{
		{"field", multipartBodyOf(t, "one", field("a", "2"), file("x.txt", "text/plain", "hello\r\n--two\r\n"))},
		{"field name", multipartBodyOf(t, "one", field("b", "1"), file("x.txt", "text/plain", "hello\r\n--two\r\n"))},
		{"file name", multipartBodyOf(t, "one", field("a", "1"), file("y.txt", "text/plain", "hello\r\n--two\r\n"))},
		{"file type", multipartBodyOf(t, "one", field("a", "1"), file("x.txt", "text/html", "hello\r\n--two\r\n"))},
		{"content", multipartBodyOf(t, "one", field("a", "1"), file("x.txt", "text/plain", "hello\r\n--two\r\n "))},
		{"order of parts", multipartBodyOf(t, "one", file("x.txt", "text/plain", "hello\r\n--two\r\n"), field("a", "1"))},
		{"a part less", multipartBodyOf(t, "one", field("a", "1"))},
		{"parameter beside the boundary", func(in *fingerprintInput) { in.ContentType += "; version=2" }},
		{"a part more", multipartBodyOf(t, "one", field("a", "1"), file("x.txt", "text/plain", "hello\r\n--two\r\n"), field("a", "1"))},
	})
}

func TestFingerprintRefusesDamagedMultipart(t *testing.T) {
	t.Parallel()
	const whole = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
	for name, in := range map[string]fingerprintInput{
		"cut off in a part":    {ContentType: "multipart/form-data; boundary=b", Body: []byte(whole[:len(whole)-9])},
		"cut off behind one":   {ContentType: "multipart/form-data; boundary=b", Body: []byte(whole[:len(whole)-4])},
		"cut off in a header":  {ContentType: "multipart/form-data; boundary=b", Body: []byte(whole[:20])},
		"damaged header":       {ContentType: "multipart/form-data; boundary=b", Body: []byte("--b\r\nno header\r\n\r\n1\r\n--b--\r\n")},
		"another boundary":     {ContentType: "multipart/form-data; boundary=c", Body: []byte(whole)},
		"no boundary":          {ContentType: "multipart/form-data", Body: []byte(whole)},
		"damaged Content-Type": {ContentType: "multipart/form-data; boundary", Body: []byte(whole)},
	} {
		if _, err := computeFingerprint(fingerprintVersion, uploadOperation(), in); !errors.Is(err, &Error{Code: CodeBodyInvalid}) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Covers FPR-13.
func TestFingerprintExclude(t *testing.T) {
	t.Parallel()
	op := transferOperation()
	op.Fingerprint.Exclude = []string{"/note", "/to/name", "header:x-trace", "query:dry"}
	requireFingerprints(t, op, transferRequest(), []change{
		{"member", body(`{"amount":1,"note":"2026-01-01T00:00:00Z","to":{"iban":"X","name":"N"}}`)},
		{"member absent", body(`{"amount":1,"to":{"iban":"X"}}`)},
		{"member in another case", body(`{"amount":1,"NOTE":5,"to":{"iban":"X","Name":"M"}}`)},
		{"header", header("X-Trace", "t")},
		{"query", query("dry=1&tag=x&tag=y")},
		{"query absent", query("tag=x&tag=y")},
	}, []change{
		{"another member", body(`{"amount":2,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"another member below", body(`{"amount":1,"note":null,"to":{"iban":"Y","name":"N"}}`)},
		{"excluded name elsewhere", body(`{"amount":1,"name":"N","to":{"iban":"X"}}`)},
		{"another header", header("X-Api-Mode", "test")},
		{"another query parameter", query("dry=0&tag=x")},
		{"query parameter in another case", query("Dry=1&dry=0&tag=x&tag=y")},
		{"cookie", header("Cookie", "session=s2")},
	})
}

func TestFingerprintInclude(t *testing.T) {
	t.Parallel()
	op := transferOperation()
	op.Fingerprint.Include = []string{"/amount", "header:X-Api-Mode", "query:dry"}
	requireFingerprints(t, op, transferRequest(), []change{
		{"another member", body(`{"amount":1,"note":"x"}`)},
		{"another header", header("X-Trace", "t")},
		{"another query parameter", query("dry=0&tag=z")},
		{"cookie", header("Cookie", "session=s2")},
	}, []change{
		{"member", body(`{"amount":2,"note":null,"to":{"iban":"X","name":"N"}}`)},
		{"member in another case", body(`{"amount":1,"AMOUNT":2}`)},
		{"member absent", body(`{"note":null}`)},
		{"header", header("X-Api-Mode", "test")},
		{"query", query("dry=1&tag=x&tag=y")},
		{"path", path("/v1/accounts/a2/transfers")},
		{"method", func(in *fingerprintInput) { in.Method = "PUT" }},
	})

	op.Fingerprint.Include = []string{"query:dry"}
	requireFingerprints(t, op, transferRequest(), []change{
		{"body", body(`{}`)},
		{"no body", body(``)},
		{"media type", contentType("")},
		{"header", header("X-Api-Mode", "test")},
	}, []change{{"query", query("")}})
	in := transferRequest()
	in.Body = []byte(`{}{}`)
	if _, err := computeFingerprint(fingerprintVersion, op, in); !errors.Is(err, &Error{Code: CodeBodyInvalid}) {
		t.Errorf("a body that does not count is not checked: %v", err)
	}

	// Pointers cannot pick from other bodies, so those count as a whole.
	op.Fingerprint.Include = []string{"/amount"}
	op.Bodies = []Body{{MediaType: "application/x-www-form-urlencoded", Kind: BodyRaw}}
	requireFingerprints(t, op, transferRequest(), nil, []change{{"form", body("amount=1&note=x")}})
}

// Covers FPR-15 and FPR-17: every stored fingerprint is compared, one of
// another version under that version, and one that cannot be computed is a
// mismatch.
func TestMatchesUnderAnotherVersion(t *testing.T) {
	t.Parallel()
	mine := mustFingerprint(t, transferOperation(), transferRequest())
	changed := transferRequest()
	body(`{"amount":2}`)(&changed)
	other := mustFingerprint(t, transferOperation(), changed)
	if mine[0] != 1 {
		t.Errorf("version %d leads the fingerprint", mine[0])
	}

	next := mine
	next[0] = 2
	nextOther := other
	nextOther[0] = 2
	request := Request{Fingerprint: next}
	for _, test := range []struct {
		name   string
		stored []byte
		want   bool
	}{
		{"the same", next[:], true},
		{"another request", nextOther[:], false},
		{"another version, unknown here", mine[:], false},
		{"nothing stored", nil, false},
		{"cut off", next[:32], false},
	} {
		if got := request.Matches(test.stored); got != test.want {
			t.Errorf("%s: Matches = %v", test.name, got)
		}
	}

	// A call knows its request and computes any version that this release has.
	call := &Call{op: transferOperation(), request: &http.Request{
		Method: "POST", URL: &url.URL{Path: "/v1/accounts/a1/transfers", RawQuery: "dry=0&tag=x&tag=y"}, Header: transferRequest().Header.Clone(),
	}, body: transferRequest().Body}
	call.request.Header.Set("Content-Type", jsonType)
	request.call = call
	if !request.Matches(mine[:]) || request.Matches(other[:]) {
		t.Error("a record of version 1 is not compared under version 1")
	}
	unknown := mine
	unknown[0] = 9
	if request.Matches(unknown[:]) {
		t.Error("a record of a version that this release does not know matches")
	}
	if _, err := computeFingerprint(9, transferOperation(), transferRequest()); err == nil {
		t.Error("an unknown version is computed")
	}
}

// Version 1 is a promise: records live longer than the release that wrote
// them. Whoever changes one of these adds a version.
func TestFingerprintVersion1DoesNotChange(t *testing.T) {
	t.Parallel()
	var upload fingerprintInput
	field := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="a"`}, "Content-Type": {"text/plain"}}
	multipartBodyOf(t, "b", part{field, "1"}, part{field, "2"})(&upload)
	transfer := transferRequest()
	transfer.Body = []byte(`{"é":[1.50,-0,1e400,true],"É":"\ud83d\ude00","b":{"z":null,"y":{}},"B":1,"b":2,"a":""}`)
	binary := transferOperation()
	binary.Bodies = []Body{{MediaType: "application/octet-stream", Kind: BodyRaw}}
	for _, test := range []struct {
		name string
		op   *Operation
		in   fingerprintInput
		want string
	}{
		{"JSON", transferOperation(), transfer, "010957b112cb0caf488f0ea776abb7cd1e802d1773543fb00a58d5a5a8082ca307"},
		{"multipart", uploadOperation(), upload, "01aa105ead0c967b9db80909eb33ed0c55c5ce725d09863e42b8ec3263223ad577"},
		{"bytes", binary, transferRequest(), "01f8f85de02334fd9f24c2199fca83b94bb16ff9959ed127bb22f6a83295f00984"},
		{"nothing", &Operation{}, fingerprintInput{}, "01c314afa404bf2cf0baea007be60cc15de41cd9bcbb57cae7a6903ef83fb444fb"},
	} {
		if got := fmt.Sprintf("%x", mustFingerprint(t, test.op, test.in)); got != test.want {
			t.Errorf("%s: fingerprint %s, want %s", test.name, got, test.want)
		}
	}
}

// FuzzFingerprint checks that requests whose path, query or multipart body a
// handler can tell apart never share a fingerprint.
func FuzzFingerprint(f *testing.F) {
	const parts = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n"
	f.Add("/v1/accounts/a%2Fb/transfers", "a=1&b=2", parts, "/accounts/a/transfers", "b=2&a=1", strings.ReplaceAll(parts, "\r\n", "\n"))
	f.Add("/accounts//transfers/", "a=1,2&a", "x"+parts, "/accounts/./transfers", "a=1%2C2&a=", parts+"y")
	f.Fuzz(func(t *testing.T, pathA, queryA, bodyA, pathB, queryB, bodyB string) {
		op := uploadOperation()
		op.Path = "/accounts/{account}/transfers"
		one := func(path, query, body string) (Fingerprint, bool) {
			f, err := computeFingerprint(fingerprintVersion, op, fingerprintInput{EscapedPath: path, RawQuery: query, ContentType: "multipart/form-data; boundary=b", Body: []byte(body)})
			return f, err == nil
		}
		base, ok := one(pathA, queryA, bodyA)
		if !ok {
			if _, err := readParts(bodyA); err == nil {
				t.Fatalf("%q is refused", bodyA)
			}
			return
		}
		if other, _ := one(pathB, queryA, bodyA); other == base && lastSegments(pathA) != lastSegments(pathB) {
			t.Fatalf("paths %q and %q share a fingerprint", pathA, pathB)
		}
		if other, _ := one(pathA, queryB, bodyA); other == base {
			a, _ := url.ParseQuery(queryA)
			b, _ := url.ParseQuery(queryB)
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("queries %q and %q share a fingerprint", queryA, queryB)
			}
		}
		if other, ok := one(pathA, queryA, bodyB); ok && other == base {
			a, errA := readParts(bodyA)
			b, errB := readParts(bodyB)
			if !reflect.DeepEqual(a, b) || (errA == nil) != (errB == nil) {
				t.Fatalf("bodies %q and %q share a fingerprint", bodyA, bodyB)
			}
		}
	})
}

// lastSegments is what a router for three segments sees of a path.
func lastSegments(escaped string) string {
	segments := strings.Split(strings.TrimPrefix(escaped, "/"), "/")
	for i, segment := range segments {
		if decoded, err := url.PathUnescape(segment); err == nil {
			segments[i] = decoded + " decoded"
		}
	}
	return fmt.Sprintf("%q", segments[max(len(segments)-3, 0):])
}

func readParts(body string) (parts []part, err error) {
	if body == "" {
		return nil, nil
	}
	for r := multipart.NewReader(strings.NewReader(body), "b"); ; {
		p, err := r.NextPart()
		if err == io.EOF { //nolint:errorlint // one that is wrapped means that the last boundary is missing
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{p.Header, string(content)})
	}
}

// payment is a JSON body of 300 bytes in the order of a Go struct.
const payment = `{"amount":12500,"currency":"EUR","debtor":{"name":"Ada Lovelace","iban":"DE89370400440532013000"},"creditor":{"name":"Charles Babbage","iban":"FR7630006000011234567890189"},"reference":"Invoice 2026-0815","requested_at":"2026-03-01T12:00:00Z","metadata":{"order":"o-18273645","channel":"web"},"ok":true}`

func BenchmarkFingerprint(b *testing.B) {
	op := transferOperation()
	for _, test := range []struct {
		name string
		body string
		rule FingerprintRule
	}{
		{"canonical", payment, FingerprintRule{}},
		{"ordered", `{"a":` + payment[10:15] + `,"b":"` + strings.Repeat("x", 280) + `"}`, FingerprintRule{}},
		{"raw", payment, FingerprintRule{Raw: true}},
		{"exclude", payment, FingerprintRule{Exclude: []string{"/requested_at"}}},
		{"empty", "", FingerprintRule{}},
	} {
		b.Run(test.name, func(b *testing.B) {
			op.Fingerprint = test.rule
			in := transferRequest()
			in.RawQuery, in.Header, in.Body = "", http.Header{}, []byte(test.body)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := computeFingerprint(fingerprintVersion, op, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
