package spec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// write makes a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load reads a document that must be free of errors.
func load(t *testing.T, opts Options) *Document {
	t.Helper()
	if opts.Marker == "" {
		opts.Marker = DefaultMarker
	}
	doc, findings := Load(opts)
	if findings.HasErrors() {
		t.Fatalf("%v", findings)
	}
	return doc
}

// marks reads the operations section of a config.
func marks(t *testing.T, text string) tree.Value {
	t.Helper()
	file, findings := tree.Parse("idemgen.yaml", []byte(text))
	if len(findings) > 0 {
		t.Fatalf("%v", findings)
	}
	return file.Root()
}

const head = "openapi: 3.1.0\ninfo: {title: T, version: \"1\"}\n"

func TestPolicyBuiltIn(t *testing.T) {
	t.Parallel()
	doc := load(t, Options{File: write(t, t.TempDir(), "s.yaml", head+`paths:
  /a:
    post: {x-idempotent: true, responses: {"204": {description: done}}}
    put: {x-idempotent: {}, responses: {"204": {description: done}}}
    delete: {x-idempotent: false, responses: {"204": {description: done}}}
    patch: {responses: {"204": {description: done}}}
`)})
	if doc.Name != "s.yaml" || len(doc.Operations) != 4 {
		t.Fatalf("document: %+v", doc)
	}
	for _, op := range doc.Operations[2:] {
		if op.Policy != nil {
			t.Errorf("%s is marked", op.ID())
		}
	}
	for _, op := range doc.Operations[:2] {
		p := op.Policy
		if p == nil {
			t.Fatalf("%s is not marked", op.ID())
		}
		if !p.Required || p.Retention != 24*time.Hour || p.WaitUpTo != 0 || p.TypeName != "" ||
			p.Key != (Key{Name: "Idempotency-Key", Format: FormatOpaque, MaxLength: 255}) ||
			!slices.Equal(p.Release, []int{401, 403, 408, 425, 429, -5}) ||
			p.Fingerprint.Raw || p.Fingerprint.Include != nil || p.Fingerprint.Exclude != nil {
			t.Errorf("%s: %+v", op.ID(), p)
		}
		for _, s := range p.Settings {
			if s.Source != FromBuiltIn || s.Pos != p.Pos || s.Value == "" {
				t.Errorf("%s: setting %+v", op.ID(), s)
			}
		}
	}
}

// The marker wins over the defaults, member by member of key, and those over
// the built-in values; each value knows where it came from.
func TestPolicySources(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "s.yaml", head+`x-idempotent-defaults:
  retention: 1h
  key: {name: X-Key, maxLength: 40}
  release: []
  inFlight: {waitUpTo: 5s}
paths:
  /a:
    parameters:
      - {name: x-key, in: header, schema: {type: [string, "null"], format: uuid, maxLength: 36}}
    post:
      operationId: a
      x-idempotent:
        retention: 48h
        required: false
        key: {maxLength: 200}
        fingerprint: {exclude: ["query:t"]}
        inFlight: reject
        name: PayRequest
      parameters:
        - {name: t, in: query, schema: {type: integer}}
        - {name: sid, in: cookie, schema: {type: string}}
      responses: {"204": {description: done}}
    put: {operationId: b, responses: {"204": {description: done}}}
`)
	doc := load(t, Options{File: file, Operations: marks(t, "b: {fingerprint: raw, release: [4XX, 503]}\n")})
	a, b := doc.Operations[0].Policy, doc.Operations[1].Policy
	if a.Retention != 48*time.Hour || a.Required || a.WaitUpTo != 0 || a.TypeName != "PayRequest" || len(a.Release) != 0 ||
		!slices.Equal(a.Fingerprint.Exclude, []string{"query:t"}) {
		t.Errorf("a: %+v", a)
	}
	if a.Key.Name != "X-Key" || a.Key.MaxLength != 36 || a.Key.Format != FormatUUID || a.Key.Declared == nil || a.Key.Declared.Name != "x-key" {
		t.Errorf("a's key: %+v", a.Key)
	}
	if b.Retention != time.Hour || b.WaitUpTo != 5*time.Second || !b.Fingerprint.Raw || !slices.Equal(b.Release, []int{-4, 503}) {
		t.Errorf("b: %+v", b)
	}
	for name, want := range map[string]string{
		"retention": "48h marker 15", "key.name": "X-Key defaults 5", "key.format": "uuid parameter 11", "key.maxLength": "36 parameter 11",
		"release": "[] defaults 6", "fingerprint": "exclude query:t marker 18",
	} {
		s := a.Setting(name)
		if got := fmt.Sprintf("%s %s %d", s.Value, s.Source, s.Pos.Line); got != want {
			t.Errorf("a's %s: %s, want %s", name, got, want)
		}
	}
	if s := b.Setting("release"); s.Source != FromConfig || s.Pos.File != "idemgen.yaml" || s.Value != "[4XX, 503]" {
		t.Errorf("b's release: %+v", s)
	}
	var names []string
	for _, p := range doc.Operations[0].Parameters {
		names = append(names, p.In+":"+p.Name)
	}
	if !slices.Equal(names, []string{"header:x-key", "query:t", "cookie:sid"}) {
		t.Errorf("parameters: %v", names)
	}
}

// What a marked operation refers to is read from wherever it is, the key's
// header among it.
//
// Covers GEN-11, GEN-20 and GEN-24.
func TestReferences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "common.yaml", `params:
  Key: {$ref: '#/params/RealKey'}
  RealKey: {name: Idempotency-Key, in: header, required: true, schema: {$ref: 'types.json#/Key'}}
`)
	write(t, dir, "types.json", `{"Key": {"type": "string", "maxLength": 64}}`)
	write(t, dir, "item.yaml", `post:
  operationId: external
  x-idempotent: true
  requestBody: {$ref: 's.yaml#/components/requestBodies/B'}
  responses: {"204": {description: done}}
`)
	file := write(t, dir, "s.yaml", head+`paths:
  /a:
    post:
      operationId: a
      x-idempotent: true
      parameters:
        - {$ref: '#/components/parameters/K~1ey'}
      requestBody: {$ref: '#/components/requestBodies/B'}
      responses:
        200: {$ref: '#/components/responses/R'}
        default: {description: problem}
  /b: {$ref: item.yaml}
  /alias: {$ref: '#/paths/~1a'}
components:
  parameters:
    K/ey: {$ref: 'common.yaml#/params/Key'}
  requestBodies:
    B:
      required: true
      content: {application/json; charset=utf-8: {}, application/x-www-form-urlencoded: {}}
  responses:
    R: {description: fine, content: {application/json: {}, text/plain: {}}}
`)
	doc := load(t, Options{File: file})
	if len(doc.Operations) != 2 {
		t.Fatalf("%d operations, want 2", len(doc.Operations))
	}
	a, b := doc.Operations[0], doc.Operations[1]
	if key := a.Policy.Key; key.Declared == nil || !key.Declared.Required || key.MaxLength != 64 {
		t.Errorf("key: %+v", key)
	}
	if a.Body == nil || !a.Body.Required || len(a.Body.MediaTypes) != 2 || a.Body.MediaTypes[0].Name != "application/json; charset=utf-8" {
		t.Errorf("body: %+v", a.Body)
	}
	if len(a.Responses) != 2 || a.Responses[0].Status != "200" || len(a.Responses[0].MediaTypes) != 2 {
		t.Errorf("responses: %+v", a.Responses)
	}
	if b.Policy == nil || b.Body == nil || filepath.Base(b.Pos.File) != "item.yaml" {
		t.Errorf("external path item: %+v", b)
	}
}

// A misplaced marker is found in a path item of another file, too.
func TestMisplacedInOtherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "item.yaml", "x-idempotent: true\npost: {x-idempotant: true, responses: {}}\n")
	file := write(t, dir, "s.yaml", head+"paths: {/a: {$ref: item.yaml}}\n")
	_, findings := Load(Options{File: file, Marker: DefaultMarker})
	if len(findings) != 2 || findings[0].Code != "marker-place" || findings[1].Code != "marker-misspelt" {
		t.Errorf("%v", findings)
	}
}

// Real documents load with every operation marked that may be, also those that
// kin-openapi refuses, such as Square's with its dangling $ref.
//
// Covers GEN-19 and GEN-22.
func TestRealDocuments(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("IDEM_SPECS")
	if dir == "" {
		dir = "../../../../shared/specs"
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*-*.*"))
	if err != nil || len(paths) == 0 {
		if os.Getenv("IDEM_REQUIRE") == "all" {
			t.Fatalf("no documents in %s, and IDEM_REQUIRE=all", dir)
		}
		t.Skipf("no documents in %s; name their directory with IDEM_SPECS", dir)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			for _, op := range load(t, Options{File: path}).Operations {
				if op.Policy != nil {
					t.Errorf("%s is marked, though the document marks nothing", op.ID())
				}
				if methods[strings.ToLower(op.Method)] {
					fmt.Fprintf(&b, "%q: {retention: 1h}\n", op.Method+" "+op.Path)
				}
			}
			doc := load(t, Options{File: path, Operations: marks(t, b.String())})
			marked := 0
			for _, op := range doc.Operations {
				if op.Policy != nil {
					marked++
					if len(op.Responses) == 0 {
						t.Errorf("%s has no responses", op.ID())
					}
				}
			}
			if want := strings.Count(b.String(), "\n"); marked != want || want == 0 {
				t.Errorf("%d operations are marked, want %d", marked, want)
			}
		})
	}
}

// Windows line ends change no finding.
//
// Covers GEN-30.
func TestWindowsLineEnds(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("../../testdata/errors/*/spec.yaml")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no error cases: %v", err)
	}
	for _, path := range dirs {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(src), "\r\n", "\n")
		dir := t.TempDir()
		file := write(t, dir, "spec.yaml", text)
		_, want := Load(Options{File: file, Marker: DefaultMarker})
		write(t, dir, "spec.yaml", strings.ReplaceAll(text, "\n", "\r\n"))
		_, got := Load(Options{File: file, Marker: DefaultMarker})
		if !slices.Equal(got, want) {
			t.Errorf("%s:\nCRLF: %v\nLF: %v", path, got, want)
		}
	}
}

// A document may be odd wherever nothing depends on it.
func TestOddDocuments(t *testing.T) {
	t.Parallel()
	for name, paths := range map[string]string{
		"no paths":            "paths: null\n",
		"list of paths":       "paths: [1]\n",
		"path item is text":   "paths: {/a: text}\n",
		"operation is null":   "paths: {/a: {post: null}}\n",
		"responses is a list": "paths: {/a: {post: {x-idempotent: true, responses: [1]}}}\n",
		"empty status":        "paths: {/a: {post: {x-idempotent: true, responses: {\"\": {}, 200: null}}}}\n",
		"empty parameter":     "paths: {/a: {post: {x-idempotent: true, parameters: [{}, null, 1, {in: header}], responses: {}}}}\n",
		"empty media type":    "paths: {/a: {post: {x-idempotent: true, requestBody: {content: {\"\": null}}, responses: {}}}}\n",
		"number as id":        "paths: {/a: {post: {operationId: 5, responses: {}}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			load(t, Options{File: write(t, t.TempDir(), "s.yaml", head+paths)})
		})
	}
}

// Whatever a marker says, it is understood in full or refused at a position in
// the file; an operation with a marker other than false never comes out
// unmarked.
func FuzzMarker(f *testing.F) {
	for _, seed := range []string{
		"true", "false", "yes", "null", `"true"`, "{}", "{retention: 1h, key: {name: X, format: uuidv7}}",
		"{fingerprint: {exclude: [/a, header:X, 'query:q']}}", "{inFlight: {waitUpTo: 5s}, mode: {lease: 1s}}",
		"{release: [400, 5XX], required: false, name: X}", "{key: {in: body, name: /a/0}}", "&a {retention: *a}", "{<<: {retention: 1h}}",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, marker string) {
		if strings.ContainsAny(marker, "\n\r") {
			t.Skip("one line")
		}
		path := filepath.Join(dir, "s.yaml")
		text := head + "paths:\n  /a:\n    post:\n      requestBody: {content: {application/json: {}}}\n      responses: {}\n      x-idempotent: " + marker + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		doc, findings := Load(Options{File: path, Marker: DefaultMarker})
		if (doc == nil) != findings.HasErrors() {
			t.Fatalf("document %v with findings %v", doc, findings)
		}
		for _, d := range findings {
			if d.File == "" || d.Code == "" || d.Message == "" || strings.Contains(d.Message, "\n") {
				t.Errorf("finding %+v", d)
			}
		}
		if doc == nil {
			return
		}
		p := doc.Operations[0].Policy
		if p == nil {
			v := marks(t, text).Get("paths", "/a", "post", "x-idempotent")
			if on, isBool := v.Bool(); on || !isBool {
				t.Errorf("%q has marked nothing", marker)
			}
			return
		}
		if p.Retention <= 0 || p.Retention > maxRetention || p.WaitUpTo < 0 || p.WaitUpTo > maxWait || p.Key.MaxLength < 1 || p.Key.MaxLength > 255 ||
			!isToken(p.Key.Name) || p.Pos == (diag.Pos{}) {
			t.Errorf("%q: %+v", marker, p)
		}
	})
}

// Operations are found wherever requests come to, in every file, each once, and
// with the names that lead to them.
func TestWebhooksAndCallbacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "hooks.yaml", `closed:
  delete: {operationId: accountClosed, x-idempotent: true, responses: {"204": {description: done}}}
lost:
  '{$request.body#/url}':
    post: {operationId: orderLost, x-idempotent: true, responses: {"204": {description: done}}}
`)
	doc := load(t, Options{
		Operations: marks(t, "POST callback done: {retention: 1h}\nPUT webhook paid: true\n"),
		File: write(t, dir, "s.yaml", head+`x-idempotent-defaults: {key: {name: Webhook-Id}}
paths:
  /orders:
    post:
      responses: {"204": {description: done}}
      callbacks:
        done:
          x-note: none
          '{$request.body#/url}': {$ref: '#/components/pathItems/Done'}
        lost: {$ref: 'hooks.yaml#/lost'}
    put:
      responses: {"204": {description: done}}
      callbacks:
        lost: {$ref: 'hooks.yaml#/lost'}
webhooks:
  paid:
    parameters: [{name: X-Attempt, in: header}]
    put: {responses: {"204": {description: done}}}
    post: {operationId: settled, responses: {"204": {description: done}}}
  closed: {$ref: 'hooks.yaml#/closed'}
components:
  pathItems:
    Done:
      post: {responses: {"204": {description: done}}}
`),
	})
	var got []string
	for _, op := range doc.Operations {
		marked := "-"
		if op.Policy != nil {
			marked = op.Policy.Key.Name + " " + op.Policy.Retention.String() + " " + fmt.Sprint(len(op.Parameters))
		}
		got = append(got, fmt.Sprintf("%s|%s|%s|%s", op.Kind, op.ID(), strings.Join(op.Location, ">"), marked))
	}
	want := []string{
		"|POST /orders|paths>/orders>post|-",
		"|PUT /orders|paths>/orders>put|-",
		"webhook|PUT webhook paid|webhooks>paid>put|Webhook-Id 24h0m0s 1",
		"webhook|settled|webhooks>paid>post|-",
		"webhook|accountClosed|webhooks>closed>delete|Webhook-Id 24h0m0s 0",
		"callback|POST callback done|paths>/orders>post>callbacks>done>{$request.body#/url}>post|Webhook-Id 1h0m0s 0",
		"callback|orderLost|paths>/orders>post>callbacks>lost>{$request.body#/url}>post|Webhook-Id 24h0m0s 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What lies behind a $ref that cannot be followed could be marked.
func TestBrokenReceivers(t *testing.T) {
	t.Parallel()
	_, findings := Load(Options{Marker: DefaultMarker, File: write(t, t.TempDir(), "s.yaml", head+`paths:
  /orders:
    post:
      callbacks:
        done: {$ref: '#/components/callbacks/none'}
        lost: {'{$request.body#/url}': {$ref: 'none.yaml'}}
        odd: 5
webhooks:
  paid: {$ref: 'https://example.com/hooks.yaml'}
  odd: [1]
`)})
	var at []string
	for _, d := range findings {
		at = append(at, fmt.Sprint(d.Line, " ", d.Code))
	}
	if want := []string{"7 ref-invalid", "8 ref-invalid", "11 ref-invalid"}; !slices.Equal(at, want) {
		t.Errorf("%v, want %v", findings, want)
	}
}
