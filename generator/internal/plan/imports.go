package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/idemgen/idemgen/generator/internal/gosource"
)

// runtimePath is the package that generated code is a client of.
const runtimePath = "github.com/idemgen/idemgen/runtime/idempotency"

// retryPath is the package that generated clients stand on.
const retryPath = "github.com/idemgen/idemgen/runtime/retry"

// fasthttpPath is the package that fiber stands on.
const fasthttpPath = "github.com/valyala/fasthttp"

// The packages that the templates name, by their import path.
var packages = map[string]string{
	"bufio":          "bufio",
	"bytes":          "bytes",
	"cmp":            "cmp",
	"context":        "context",
	"errors":         "errors",
	"io":             "io",
	"log/slog":       "slog",
	"mime":           "mime",
	"mime/multipart": "multipart",
	"net":            "net",
	"net/http":       "http",
	"slices":         "slices",
	"strings":        "strings",
	"time":           "time",
	fasthttpPath:     "fasthttp",
	runtimePath:      "idempotency",
}

// locals are the names inside generated functions. No import is called so.
var locals = []string{
	"a", "answer", "app", "b", "before", "body", "c", "call", "client", "ctx", "decode", "edge", "entry", "err", "errs",
	"gone", "handle", "header", "in", "kept", "key", "lease", "line", "lines", "mediaType", "middlewares", "name", "next",
	"ok", "op", "options", "opts", "other", "own", "params", "pool", "r", "req", "reqEditors", "request", "reread", "resp",
	"response", "route", "s", "scope", "sender", "srv", "status", "store", "streamed", "strict", "text", "tx",
	"unread", "user", "v", "value", "values", "visit", "w", "writer",
}

// imports collects what a file imports.
type imports struct {
	scope  *scope
	byPath map[string]importSpec
	used   map[string]bool // names
}

type importSpec struct {
	name     string
	explicit bool
}

func newImports(s *scope) *imports {
	i := &imports{scope: s, byPath: make(map[string]importSpec), used: make(map[string]bool)}
	for _, name := range locals {
		i.used[name] = true
	}
	for _, name := range packages {
		i.used[name] = true
	}
	return i
}

// name imports a package that a type of the generated code refers to, and
// returns the name it has in our file: the one it has there, unless that is
// taken.
func (i *imports) name(imp gosource.Import) string {
	if name, ok := packages[imp.Path]; ok {
		i.add(imp.Path)
		return name
	}
	if spec, ok := i.byPath[imp.Path]; ok {
		return spec.name
	}
	spec := importSpec{name: imp.Name, explicit: imp.Named}
	for n := 2; i.used[spec.name] || i.scope.has(spec.name); n++ {
		spec = importSpec{name: imp.Name + strconv.Itoa(n), explicit: true}
	}
	i.used[spec.name] = true
	i.byPath[imp.Path] = spec
	return spec.name
}

// add imports one of the packages that the templates name.
func (i *imports) add(path string) {
	i.byPath[path] = importSpec{name: packages[path]}
}

// uses imports what the templates need.
func (i *imports) uses(f *File) {
	for _, path := range []string{"log/slog", "net/http", "time", runtimePath} {
		i.add(path)
	}
	if f.Client != nil || f.HasStrict() || f.Target != string(gosource.NetHTTP) { // it has its context in the request
		i.add("context")
	}
	if f.Target == string(gosource.Fiber) {
		i.add("bytes")
		i.add("io")
		i.add("strings")
		i.add(fasthttpPath)
	}
	if f.Client != nil || f.HasPlain() && f.Target == string(gosource.Iris) {
		i.add("slices")
	}
	if f.HasPlain() && f.Target == string(gosource.Gin) {
		i.add("bufio")
		i.add("net")
	}
	for _, op := range f.All() {
		if op.method.Call != nil && op.DefaultsMediaType() {
			i.add("cmp")
		}
		if op.Streams() {
			i.add("errors")
			i.add("io")
		}
		if op.Multipart() {
			i.add("mime")
			i.add("mime/multipart")
			i.add("strings")
		}
	}
}

// lines returns the import specs: the standard library's, an empty line, the
// others.
func (i *imports) lines() []string {
	var std, others []string
	for _, path := range slices.Sorted(maps.Keys(i.byPath)) {
		line := strconv.Quote(path)
		if spec := i.byPath[path]; spec.explicit {
			line = spec.name + " " + line
		}
		if first, _, _ := strings.Cut(path, "/"); strings.Contains(first, ".") {
			others = append(others, line)
		} else {
			std = append(std, line)
		}
	}
	return append(append(std, ""), others...)
}
