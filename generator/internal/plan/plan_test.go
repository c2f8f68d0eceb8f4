package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/plan"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// packageWith returns a package with one method for each operation, given as
// name and comment line.
func packageWith(t *testing.T, more string, methods ...string) *gosource.Package {
	t.Helper()
	var b, strict, raw strings.Builder
	b.WriteString("package api\n\nimport (\"context\"; \"net/http\")\n\ntype StrictMiddlewareFunc func()\ntype StrictHTTPServerOptions struct{}\nfunc NewStrictHandler() {}\nfunc NewStrictHandlerWithOptions() {}\n")
	for _, m := range methods {
		name, comment, _ := strings.Cut(m, " ")
		strict.WriteString("\t// " + strings.ReplaceAll(comment, "\n", "\n\t// ") + "\n\t" + name + "(ctx context.Context, request " + name + "RequestObject) (" + name + "ResponseObject, error)\n")
		raw.WriteString("\t" + name + "(w http.ResponseWriter, r *http.Request)\n")
		b.WriteString("type " + name + "RequestObject struct{}\ntype " + name + "ResponseObject interface { Visit" + name + "Response(w http.ResponseWriter) error }\n")
	}
	b.WriteString("type StrictServerInterface interface {\n" + strict.String() + "}\ntype ServerInterface interface {\n" + raw.String() + "}\n" + more)
	pkg, findings := gosource.Load(t.TempDir(), map[string][]byte{"api.gen.go": []byte(b.String())})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	return pkg
}

func marked(line int, id, route string) spec.Operation {
	method, path, _ := strings.Cut(route, " ")
	return spec.Operation{
		Method: method, Path: path, OperationID: id, Pos: diag.Pos{File: "openapi.yaml", Line: line},
		Policy: &spec.Policy{
			Pos: diag.Pos{File: "openapi.yaml", Line: line + 1}, Required: true, Retention: time.Hour,
			Key: spec.Key{Name: "Idempotency-Key", MaxLength: 255},
		},
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		methods []string
		ops     []spec.Operation
		want    string // "Name=ID ..." or the finding
	}{
		"by route": {
			methods: []string{"Renamed (POST /a)", "Other (POST /b)"},
			ops:     []spec.Operation{marked(1, "createA", "POST /a")},
			want:    "Renamed=createA",
		},
		"without operationId": {
			methods: []string{"PostA (POST /a)"},
			ops:     []spec.Operation{marked(1, "", "POST /a")},
			want:    "PostA=POST /a",
		},
		"by operationId": {
			methods: []string{"CreateA a summary"},
			ops:     []spec.Operation{marked(1, "create_a.", "POST /a")},
			want:    "CreateA=create_a.",
		},
		"a summary like a route": {
			methods: []string{"Read (POST /a)\n(GET /a)", "CreateA (POST /a)"},
			ops:     []spec.Operation{marked(1, "createA", "POST /a")},
			want:    "CreateA=createA",
		},
		"only a summary tells": {
			methods: []string{"Read (POST /a)\n(GET /a)", "PostA (POST /a)"},
			ops:     []spec.Operation{marked(1, "", "POST /a")},
			want:    "openapi.yaml:1: POST /a could be Read or PostA in the generated code",
		},
		"no method": {
			methods: []string{"Other (POST /b)"},
			ops:     []spec.Operation{marked(1, "createA", "POST /a")},
			want:    "openapi.yaml:1: no generated method for createA (POST /a): is the oapi-codegen output stale",
		},
		"moved": {
			methods: []string{"CreateA (POST /old)"},
			ops:     []spec.Operation{marked(1, "createA", "POST /new")},
			want:    "serves POST /old, and the document says POST /new; run oapi-codegen again",
		},
		"one method for two": {
			methods: []string{"CreateA a summary"},
			ops:     []spec.Operation{marked(1, "createA", "POST /a"), marked(5, "create-a", "POST /b")},
			want:    "openapi.yaml:5: create-a and createA (openapi.yaml:1) are both the generated method CreateA",
		},
		"called like an embedded field": {
			methods: []string{"ServerInterface (POST /a)"},
			ops:     []spec.Operation{marked(1, "serverInterface", "POST /a")},
			want:    "an operation called ServerInterface cannot be wrapped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, findings := plan.New(&spec.Document{Operations: test.ops}, packageWith(t, "", test.methods...))
			var got []string
			if f != nil {
				for _, op := range f.Operations {
					got = append(got, op.Method()+"="+op.ID())
				}
			}
			for _, d := range findings {
				got = append(got, d.String())
			}
			if s := strings.Join(got, " "); !strings.Contains(s, test.want) {
				t.Errorf("%s, want %s", s, test.want)
			}
		})
	}
}

// A name that users type never changes because another one appears: it is
// refused, with a name that is free.
//
// Covers GEN-04.
func TestCollisions(t *testing.T) {
	t.Parallel()
	named := marked(1, "createA", "POST /a")
	named.Policy.TypeName = "BuyRequest"
	optional := marked(1, "createA", "POST /a")
	optional.Policy.Required = false
	short := marked(1, "createA", "POST /a")
	short.Policy.Key.MaxLength = 25
	for name, test := range map[string]struct {
		more    string
		methods []string
		ops     []spec.Operation
		want    string
	}{
		"input": {
			more: "type CreateAInput struct{}\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{marked(1, "createA", "POST /a")},
			want: "openapi.yaml:2: CreateAInput of createA is already declared (DIR/api.gen.go:18:6); write name: CreateAOnceIdempotentRequest in its marker for other names",
		},
		"suggestion": {
			more: "type CreateAOp struct{}\nvar ParseCreateAOnceIdempotencyKey int\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{marked(1, "createA", "POST /a")},
			want: "write name: CreateAOnce2IdempotentRequest",
		},
		"unprotected": {
			more: "type NewCreateAUnprotectedRequest struct{}\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{optional},
			want: "NewCreateAUnprotectedRequest of createA is already declared",
		},
		"each other": {
			methods: []string{"CreateA (POST /a)", "NewCreateA (POST /b)"},
			ops:     []spec.Operation{marked(1, "createA", "POST /a"), marked(5, "newCreateA", "POST /b")},
			want:    "openapi.yaml:6: NewCreateAIdempotencyKey of newCreateA is already declared (openapi.yaml:1)",
		},
		"fixed": {
			more: "type IdempotentServer struct{}\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{marked(1, "createA", "POST /a")},
			want: "DIR/api.gen.go:18:6: IdempotentServer is the name of something idemgen generates",
		},
		"package": {
			more: "func idempotency() {}\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{marked(1, "createA", "POST /a")},
			want: "DIR/api.gen.go:18:6: idempotency is the name of a package that generated code imports",
		},
		"name": {
			more: "type CreateAInput struct{}\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{named},
			want: "BuyOp BuyIdempotencyKey NewBuyIdempotencyKey ParseBuyIdempotencyKey BuyInput BuyRequest NewBuyRequest buyOperation",
		},
		"short key": {
			methods: []string{"CreateA (POST /a)"},
			ops:     []spec.Operation{short},
			want:    "CreateAOp CreateAIdempotencyKey  ParseCreateAIdempotencyKey",
		},
		"unexported": {
			more: "var createAOperation int\n", methods: []string{"CreateA (POST /a)"},
			ops:  []spec.Operation{marked(1, "createA", "POST /a")},
			want: "createAOperation2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pkg := packageWith(t, test.more, test.methods...)
			f, findings := plan.New(&spec.Document{Operations: test.ops}, pkg)
			var got []string
			if f != nil {
				for _, op := range f.Operations {
					got = append(got, op.Op, op.Key, op.NewKey, op.ParseKey, op.Input, op.Request, op.NewRequest, op.OperationVar)
				}
			}
			dir := strings.TrimSuffix(pkg.Pos.File, "/api.gen.go")
			for _, d := range findings {
				got = append(got, strings.ReplaceAll(d.String(), dir, "DIR"))
			}
			if s := strings.Join(got, " "); !strings.Contains(s, test.want) {
				t.Errorf("%s\nwant %s", s, test.want)
			}
		})
	}
}

// Names that no user types make room for what the package declares, each of
// them.
func TestHiddenNames(t *testing.T) {
	t.Parallel()
	hidden := func(more string) []string {
		f, findings := plan.New(&spec.Document{Operations: []spec.Operation{marked(1, "createA", "POST /a")}}, packageWith(t, more, "CreateA (POST /a)"))
		if f == nil {
			t.Fatal(findings)
		}
		v := reflect.ValueOf(f.Hidden)
		names := make([]string, v.NumField())
		for i := range names {
			names[i] = v.Field(i).String()
		}
		return names
	}
	names := hidden("")
	for i, got := range hidden("var " + strings.Join(names, ", ") + " int\n") {
		if want := names[i] + "2"; got != want || slices.Contains(names[:i], names[i]) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Types of other packages come with their imports, under the names that the
// generated file gives them where these are free.
func TestImports(t *testing.T) {
	t.Parallel()
	const src = `package api

import (
	"context"
	"net/http"

	http2 "example.com/http"
	idempotency2 "example.com/idempotency"
	ctx "example.com/ctx"
	"example.com/go-plain/v2"
	"time"
)

type StrictMiddlewareFunc func()
type StrictHTTPServerOptions struct{}
func NewStrictHandler() {}
func NewStrictHandlerWithOptions() {}
type PayRequestObject struct {
	A ctx.A ` + "`json:\"a\"`" + `
	B plain.B ` + "`json:\"b\"`" + `
	C time.Time ` + "`json:\"c\"`" + `
	D http2.D ` + "`json:\"d\"`" + `
}
type PayResponseObject interface { VisitPayResponse(w http.ResponseWriter) error }
type StrictServerInterface interface {
	// (POST /a)
	Pay(ctx context.Context, request PayRequestObject) (PayResponseObject, error)
}
type ServerInterface interface {
	Pay(w http.ResponseWriter, r *http.Request, s ctx.A, w_ plain.B, http time.Time, payOperation http2.D, r idempotency2.E)
}
`
	pkg, findings := gosource.Load(t.TempDir(), map[string][]byte{"api.gen.go": []byte(src)})
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	f, findings := plan.New(&spec.Document{Operations: []spec.Operation{marked(1, "pay", "POST /a")}}, pkg)
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if got, want := strings.Join(f.Imports, "\n"), `"context"
"log/slog"
"net/http"
"time"

ctx2 "example.com/ctx"
"example.com/go-plain/v2"
http2 "example.com/http"
idempotency2 "example.com/idempotency"
"github.com/idemgen/idemgen/runtime/idempotency"`; got != want {
		t.Errorf("imports\n%s\nwant\n%s", got, want)
	}
	var got []string
	for _, p := range f.Operations[0].Parameters {
		got = append(got, p.Name+" "+p.Type)
	}
	for _, p := range f.Operations[0].InputFields {
		got = append(got, p.Name+" "+p.Type)
	}
	if got, want := strings.Join(got, ", "), "s_ ctx2.A, w_ plain.B, http_ time.Time, payOperation_ http2.D, r_ idempotency2.E, A ctx2.A, B plain.B, C time.Time, D http2.D"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"24 * time.Hour":          24 * time.Hour,
		"90 * time.Minute":        90 * time.Minute,
		"3661 * time.Second":      time.Hour + time.Minute + time.Second,
		"1500 * time.Millisecond": 1500 * time.Millisecond,
		"7 * time.Microsecond":    7 * time.Microsecond,
		"7 * time.Nanosecond":     7 * time.Nanosecond,
	} {
		op := marked(1, "createA", "POST /a")
		op.Policy.Retention = d
		op.Policy.Key.Format = spec.FormatUUID
		f, findings := plan.New(&spec.Document{Operations: []spec.Operation{op}}, packageWith(t, "", "CreateA (POST /a)"))
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		got := f.Operations[0]
		if got.Retention() != want {
			t.Errorf("%s: %s, want %s", d, got.Retention(), want)
		}
		if got.KeyFormat() != "KeyUUID" {
			t.Errorf("key format %s", got.KeyFormat())
		}
	}
}

func TestRequestHeaders(t *testing.T) {
	t.Parallel()
	var ops []spec.Operation
	var methods []string
	for i, header := range []string{"X-B", "idempotency-key", "Idempotency-Key", "X-A"} {
		name := string(rune('A' + i))
		op := marked(i, name, "POST /"+name)
		op.Policy.Key.Name = header
		ops, methods = append(ops, op), append(methods, name+" (POST /"+name+")")
	}
	f, findings := plan.New(&spec.Document{Operations: ops}, packageWith(t, "", methods...))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	if got := strings.Join(f.RequestHeaders(), " "); got != "Idempotency-Key X-A X-B" {
		t.Error(got)
	}
}
