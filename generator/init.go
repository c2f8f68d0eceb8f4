package generator

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
	"github.com/idemgen/idemgen/generator/internal/tree"
)

// Start is the plan for beginning with idemgen in a package.
type Start struct {
	// Result holds the files to write. Nothing that exists is among them,
	// except for a file that gets a go:generate line.
	Result
	// Done says what the files are, one line each, and Next what the user has
	// to do.
	Done, Next []string
}

// configName is the config's file name where nobody gives another.
const configName = "idemgen.yaml"

// configSchema is where editors find the schema of the config.
const configSchema = "https://raw.githubusercontent.com/idemgen/idemgen/main/generator/idemgen.schema.json"

// Init plans the config and the go:generate line for the package in dir.
// The document is looked for unless spec names it. Version is the version of
// idemgen to run, such as v0.1.0 or latest, where the module does not have idemgen
// as a tool. Its errors are [Findings].
func Init(dir, document, version string) (Start, error) {
	s := starter{dir: filepath.Clean(dir), document: document, version: version}
	s.run()
	if err := asError(s.findings); err != nil {
		return Start{}, err
	}
	return s.start, nil
}

type starter struct {
	dir      string
	document string
	version  string

	packageName string // of the Go files in dir, or ""
	generated   bool   // oapi-codegen's output is there
	oapi        string // path of oapi-codegen's config, or ""
	directive   directive
	output      string // directory that oapi-codegen writes to
	clientOnly  bool   // oapi-codegen makes a client and no server

	start    Start
	findings diag.List
}

// directive is a go:generate line that runs oapi-codegen.
type directive struct {
	file string // path of the Go file, or "" where there is none
	line int
	args []string
}

func (s *starter) errorf(file, code, format string, args ...any) {
	s.findings = append(s.findings, diag.Errorf(diag.Pos{File: diag.FileName(file)}, code, format, args...))
}

func (s *starter) run() {
	configPath := filepath.Join(s.dir, configName)
	switch info, err := os.Stat(s.dir); {
	case err != nil || !info.IsDir():
		s.errorf(s.dir, "init", "is no directory; create it")
	case moduleRoot(s.dir) == "":
		s.errorf(s.dir, "module", "lies in no Go module; run go mod init in the directory that should be its root")
	case exists(configPath):
		s.errorf(configPath, "init", "exists already; change it by hand, or run idemgen")
	default:
		s.readGo()
		s.findOapiConfig()
		s.findOutput()
		s.findDocument()
	}
	if s.findings.HasErrors() {
		return
	}
	doc, findings := spec.Load(spec.Options{File: s.document, Marker: spec.DefaultMarker})
	if findings.HasErrors() {
		s.findings = findings
		return
	}
	builtIn := s.directive.file == "" && (s.oapi != "" || !s.generated)
	if builtIn && s.oapi == "" {
		s.writeOapiConfig(doc)
	}
	s.writeConfig(configPath, doc, builtIn)
	s.writeDirective()
	s.next(doc)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// readGo looks at the package's Go files.
func (s *starter) readGo() {
	paths, _ := filepath.Glob(filepath.Join(s.dir, "*.go")) // the pattern is valid
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil || strings.HasSuffix(path, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		s.packageName = file.Name.Name
		s.generated = s.generated || gosource.IsGenerated(file)
		for _, group := range file.Comments {
			for _, c := range group.List {
				text, ok := strings.CutPrefix(c.Text, "//go:generate ")
				// The last one counts: go generate runs them in this order.
				if ok && strings.Contains(text, "oapi-codegen") {
					s.directive = directive{path, fset.PositionFor(c.Pos(), false).Line, strings.Fields(text)}
				}
			}
		}
	}
}

// findOapiConfig looks for a YAML file that configures oapi-codegen. Of several,
// which something else runs if their output is there, idemgen can run none.
func (s *starter) findOapiConfig() {
	if s.directive.file != "" {
		return
	}
	var found, names []string
	for _, path := range dataFiles(s.dir) {
		root, ok := rootOf(path)
		if ok && root.Get("generate").IsMap() && root.Get("package").Exists() {
			found, names = append(found, path), append(names, diag.FileName(path))
		}
	}
	switch {
	case len(found) == 1:
		s.oapi = found[0]
	case len(found) > 1 && !s.generated:
		s.errorf(s.dir, "init", "there are several configs of oapi-codegen (%s), and idemgen runs one; write a go:generate line that runs oapi-codegen for each of them, or make them one", strings.Join(names, ", "))
	}
}

// flag is the value of a flag in the line, or "" where it has none that can be
// read without a shell.
func (d directive) flag(name string) string {
	for i, arg := range d.args {
		flag, value, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		if flag != name || !strings.HasPrefix(arg, "-") {
			continue
		}
		if !joined && i+1 < len(d.args) {
			value = d.args[i+1]
		}
		if !strings.ContainsAny(value, "\"$") {
			return value
		}
	}
	return ""
}

// findOutput reads from oapi-codegen's config what it generates, and where, which
// is often another package than the one with the go:generate line.
func (s *starter) findOutput() {
	s.output = s.dir
	config, output := s.oapi, s.directive.flag("o")
	if name := s.directive.flag("config"); name != "" {
		config = under(s.dir, name)
	}
	if config != "" {
		if root, ok := rootOf(config); ok {
			if name, ok := root.Get("output").Str(); ok && output == "" {
				output = name
			}
			client, _ := root.Get("generate", "client").Bool()
			s.clientOnly = client && !slices.ContainsFunc(root.Get("generate").Fields(), func(f tree.Field) bool {
				on, _ := f.Value.Bool()
				return on && strings.HasSuffix(f.Name, "-server")
			})
		}
	}
	if output != "" {
		s.output = filepath.Dir(under(s.dir, output))
	}
}

// dataFiles are the YAML and JSON files of a directory, sorted.
func dataFiles(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !e.IsDir() {
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}
	}
	return paths
}

func rootOf(path string) (tree.Value, bool) {
	file, findings := tree.Read(path)
	if findings.HasErrors() {
		return tree.Value{}, false
	}
	return file.Root(), true
}

// findDocument looks for the OpenAPI document: as oapi-codegen's go:generate
// line has it, else in the package's directory, else above it in the module,
// there also in the directories where people keep it.
func (s *starter) findDocument() {
	if s.document != "" {
		return
	}
	if n := len(s.directive.args); n > 1 {
		if path := under(s.dir, s.directive.args[n-1]); isDocument(path) {
			s.document = path
			return
		}
	}
	root := moduleRoot(s.dir)
	for dir := realPath(s.dir); ; dir = filepath.Dir(dir) {
		var found []string
		for _, sub := range []string{".", "api", "openapi", "spec", "docs"} {
			for _, path := range dataFiles(filepath.Join(dir, sub)) {
				if isDocument(path) {
					found = append(found, path)
				}
			}
			if sub == "." && len(found) > 0 {
				break
			}
		}
		switch {
		case len(found) == 1:
			s.document = found[0]
			return
		case len(found) > 1:
			names := make([]string, len(found))
			for i, path := range found {
				names[i] = diag.FileName(path)
			}
			s.errorf(s.dir, "init", "there are several OpenAPI documents (%s); name one with -spec", strings.Join(names, ", "))
			return
		case dir == root || dir == filepath.Dir(dir):
			s.errorf(s.dir, "init", "no OpenAPI document is in sight; name it with -spec")
			return
		}
	}
}

func isDocument(path string) bool {
	root, ok := rootOf(path)
	return ok && (root.Get("openapi").Exists() || root.Get("swagger").Exists()) && (root.Get("paths").Exists() || root.Get("webhooks").Exists())
}

// add plans a file.
func (s *starter) add(path string, content []byte, done string) {
	if exists(path) {
		s.errorf(path, "init", "exists already and would be overwritten; rename it")
		return
	}
	s.start.Files = append(s.start.Files, File{Path: path, Content: content, ours: func([]byte) bool { return false }})
	s.start.Done = append(s.start.Done, diag.FileName(path)+": "+done)
}

func (s *starter) writeOapiConfig(doc *spec.Document) {
	s.oapi = filepath.Join(s.dir, "oapi-codegen.yaml")
	content := fmt.Appendf(nil, `package: %s
output: api.gen.go
generate:
  models: true
  strict-server: true
  std-http-server: true # one of %s
  # client: true # for an IdempotentClient; alone, without the two servers, in a package of its own
`, s.goName(), gosource.Servers("or"))
	if slices.ContainsFunc(doc.Operations, func(op spec.Operation) bool { return op.Kind == spec.Webhook }) {
		content = append(content, "output-options:\n  skip-prune: true # else oapi-codegen drops schemas that only webhooks refer to\n"...)
	}
	s.add(s.oapi, content, "a config for oapi-codegen, which idemgen runs")
}

// goName is the name of the package, taken from the last element of its import
// path where it has no Go files yet.
func (s *starter) goName() string {
	if s.packageName != "" {
		return s.packageName
	}
	dir, root := realPath(s.dir), moduleRoot(s.dir)
	last := filepath.Base(dir)
	if dir == root {
		content, _ := os.ReadFile(filepath.Join(root, "go.mod")) // one without a module's path leaves api
		prefix, _, _ := module.SplitPathVersion(modfile.ModulePath(content))
		last = filepath.Base(prefix)
	}
	name := strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) {
			return unicode.ToLower(r)
		}
		return -1
	}, last)
	if !token.IsIdentifier(name) {
		return "api"
	}
	return name
}

func (s *starter) writeConfig(path string, doc *spec.Document, builtIn bool) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# yaml-language-server: $schema=%s\n", configSchema)
	fmt.Fprintf(&b, "# What idemgen generates; run idemgen help generate to see every key.\n")
	fmt.Fprintf(&b, "spec: %s\n", s.relative(s.document))
	if builtIn {
		fmt.Fprintf(&b, "oapi-codegen: %s\n", s.relative(s.oapi))
	}
	fmt.Fprintf(&b, "package: %s\noutput: %s\n", s.relative(s.output), defaultOutput)
	if candidates := unmarked(doc); len(candidates) > 0 {
		fmt.Fprintf(&b, "# Mark operations in the document with x-idempotent: true, or here:\n#operations:\n")
		for _, name := range candidates {
			fmt.Fprintf(&b, "#  %q: true\n", name)
		}
	}
	s.add(path, b.Bytes(), "the config of idemgen, for "+diag.FileName(s.document))
}

// unmarked are the first operations that could be marked and are not.
func unmarked(doc *spec.Document) []string {
	const most = 20
	var names []string
	for i := range doc.Operations {
		op := &doc.Operations[i]
		if op.Policy == nil && slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, op.Method) && len(names) < most {
			names = append(names, op.ID())
		}
	}
	return names
}

// relative is a path as the config writes it, quoted where YAML needs it.
func (s *starter) relative(path string) string {
	name, err := filepath.Rel(realPath(s.dir), realPath(path))
	if err != nil {
		name = path
	}
	name = filepath.ToSlash(name)
	if strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("/._-", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		return strconv.Quote(name)
	}
	return name
}

// toolPath is the import path of idemgen.
const toolPath = "github.com/idemgen/idemgen/cmd/idemgen"

// command is how go generate runs idemgen: as a tool of the module where it is
// one, so that its version stands in one place, else by its version.
func (s *starter) command() string {
	paths, _ := filepath.Glob(filepath.Join(moduleRoot(s.dir), "*.mod")) // the pattern is valid
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		file, err := modfile.Parse(path, content, nil)
		if err != nil || !slices.ContainsFunc(file.Tool, func(t *modfile.Tool) bool { return t.Path == toolPath }) {
			continue
		}
		if filepath.Base(path) == "go.mod" {
			return "go tool idemgen"
		}
		return "go tool -modfile=" + s.relative(path) + " idemgen"
	}
	return "go run " + toolPath + "@" + s.version
}

// writeDirective adds the go:generate line: under oapi-codegen's, which has to
// run first, else to a new file.
func (s *starter) writeDirective() {
	line := "//go:generate " + s.command()
	if s.directive.file != "" {
		src, err := os.ReadFile(s.directive.file)
		if err != nil {
			s.errorf(s.directive.file, "init", "cannot be read: %v", err)
			return
		}
		lines := bytes.SplitAfter(src, []byte("\n"))
		above := lines[s.directive.line-1]
		end := "\n"
		if bytes.HasSuffix(above, []byte("\r\n")) {
			end = "\r\n"
		}
		if !bytes.HasSuffix(above, []byte("\n")) {
			line = end + line
		}
		content := slices.Concat(append(slices.Clone(lines[:s.directive.line]), append([][]byte{[]byte(line + end)}, lines[s.directive.line:]...)...)...)
		s.start.Files = append(s.start.Files, File{Path: s.directive.file, Content: content, ours: func(onDisk []byte) bool { return bytes.Equal(onDisk, src) }})
		s.start.Done = append(s.start.Done, fmt.Sprintf("%s: a go:generate line, under that of oapi-codegen", diag.FileName(s.directive.file)))
		return
	}
	path := filepath.Join(s.dir, "generate.go")
	if exists(path) {
		s.start.Next = append(s.start.Next, fmt.Sprintf("add this line to %s: %s", diag.FileName(path), line))
		return
	}
	s.add(path, fmt.Appendf(nil, "package %s\n\n%s\n", s.goName(), line), "the go:generate line")
}

func (s *starter) next(doc *spec.Document) {
	protected := slices.ContainsFunc(doc.Operations, func(op spec.Operation) bool { return op.Policy != nil })
	if !protected {
		s.start.Next = append(s.start.Next, fmt.Sprintf("mark an operation: write x-idempotent: true beside its responses in %s, or name it under operations in %s",
			diag.FileName(s.document), diag.FileName(filepath.Join(s.dir, configName))))
	}
	if strings.HasSuffix(s.command(), "@latest") {
		s.start.Next = append(s.start.Next, "write a released version in place of latest in the go:generate line, so that every machine generates the same code")
	}
	if s.generated && s.directive.file == "" && s.oapi == "" {
		s.start.Next = append(s.start.Next, fmt.Sprintf("let idemgen run after oapi-codegen, which nothing in this directory runs: write idemgen's go:generate line under that of oapi-codegen, with -config and the path of %s, for go generate takes directories in the order of their names", configName))
	}
	if s.generated && s.directive.file == "" && s.oapi != "" {
		s.start.Next = append(s.start.Next, fmt.Sprintf("where the code here is not from oapi-codegen %s, which idemgen has built in and runs, name your own in %s: oapi-codegen: {command: [go, tool, oapi-codegen, ...]}",
			oapiCodegenVersion, diag.FileName(filepath.Join(s.dir, configName))))
	}
	s.start.Next = append(s.start.Next, "run go generate, then go get github.com/idemgen/idemgen/runtime and go mod tidy")
	s.start.Next = append(s.start.Next, s.uses(doc)...)
	s.start.Next = append(s.start.Next, fmt.Sprintf("keep idemgen -check in CI, in the directory of %s or with -config", configName))
}

// uses says what to write beside the generated code: for the operations that
// are marked, or for all of them where none is yet.
func (s *starter) uses(doc *spec.Document) []string {
	if s.clientOnly {
		return []string{"send requests with the client of NewIdempotentClient"}
	}
	marked := slices.ContainsFunc(doc.Operations, func(op spec.Operation) bool { return op.Policy != nil })
	var steps []string
	for _, side := range []struct {
		kind              spec.Kind
		name, constructor string
	}{
		{spec.Served, "IdempotentServer", "NewIdempotentHandler"},
		{spec.Webhook, "IdempotentWebhookReceiver", "NewIdempotentWebhookReceiver"},
		{spec.Callback, "IdempotentCallbackReceiver", "NewIdempotentCallbackReceiver"},
	} {
		if !slices.ContainsFunc(doc.Operations, func(op spec.Operation) bool {
			return op.Kind == side.kind && (op.Policy != nil || !marked)
		}) {
			continue
		}
		steps = append(steps,
			fmt.Sprintf("implement %s; with var _ %[1]s[pgx.Tx] = service{} the compiler names a missing method (service is your type, and pgx.Tx the transaction of pgxstore; that of sqlstore is *sql.Tx, of redisstore *redisstore.Tx, of dynamostore *dynamostore.Tx)", side.name),
			fmt.Sprintf("serve what %s makes of it: handlers that reach oapi-codegen's functions without it compile as before, and are unprotected", side.constructor))
	}
	return steps
}
