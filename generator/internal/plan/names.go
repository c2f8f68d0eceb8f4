package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/idemgen/idemgen/generator/internal/diag"
	"github.com/idemgen/idemgen/generator/internal/gosource"
	"github.com/idemgen/idemgen/generator/internal/spec"
)

// names are all identifiers of one operation at package level.
type names struct {
	Op             string // the type that stands for the operation
	Key            string
	NewKey         string // "" where keys are too short to be random, or another's
	ParseKey       string
	Input          string
	Request        string
	NewRequest     string
	NewUnprotected string // "" where a key is required
	OperationVar   string
}

// randomKeyLength is what the runtime needs to make a random key.
const randomKeyLength = 26

// The endings of the default names. A `name` in the marker changes what
// stands before them.
const (
	requestSuffix = "IdempotentRequest"
	shortSuffix   = "Request"
)

func namesOf(stem, request string) names {
	key := stem + "IdempotencyKey"
	return names{
		Op:         stem + "Op",
		Key:        key,
		NewKey:     "New" + key,
		ParseKey:   "Parse" + key,
		Input:      stem + "Input",
		Request:    request,
		NewRequest: "New" + request,
	}
}

func (n names) exported() []string {
	all := []string{n.Op, n.Key, n.NewKey, n.ParseKey, n.Input, n.Request, n.NewRequest, n.NewUnprotected}
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// name decides the identifiers of an operation and takes them. A collision is
// an error: a name that users type does not change because something else
// appears in the package.
func (p *planner) name(op *spec.Operation, method *gosource.Operation) names {
	stem, request := method.Stem(), method.Stem()+requestSuffix
	if asked := op.Policy.TypeName; asked != "" {
		request = asked
		stem = strings.TrimSuffix(asked, requestSuffix)
		if stem == asked {
			stem = strings.TrimSuffix(asked, shortSuffix)
		}
		if stem == "" {
			stem = method.Stem()
		}
	}
	n := namesOf(stem, request)
	if op.Policy.Key.MaxLength < randomKeyLength || op.Kind != spec.Served {
		n.NewKey = ""
	}
	if !op.Policy.Required {
		n.NewUnprotected = "New" + stem + "UnprotectedRequest"
	}
	for _, name := range n.exported() {
		if at, taken := p.scope.take(name, op.Pos); taken {
			p.errorf(op.Policy.Pos, "name-collision", "%s of %s is already declared (%s); write name: %s in its marker for other names", name, op.ID(), at, p.suggest(method.Stem()))
			break // one other name changes all of them
		}
	}
	n.OperationVar = p.scope.free(lowerFirst(stem) + "Operation")
	return n
}

// Hidden are the names beside those of operations that no user types. The target
// decides which of them a file declares.
type Hidden struct {
	Tx             string // the type parameter
	Store          string // the one for a store with leases
	RawServer      string // the server that is returned
	StrictServer   string // what the strict server calls
	StrictOptions  string // the strict server's options and middlewares
	Answer         string // an answer that is stored or refuses
	RequestContext string // a request's context with the values of the framework's
	AttemptContext string // a function that finds it
	Writer         string // an answer of the framework as an http.ResponseWriter

	// Functions for fiber.
	OwnScope   string // copies what a scope returns
	RequestOf  string // makes a request of net/http
	DecodeJSON string // decodes as the application does
	Keep       string // runs a handler and keeps its answer
	CopyAnswer string // copies an answer
}

func (p *planner) hidden() Hidden {
	return Hidden{
		Tx:             p.scope.free("Tx"),
		Store:          p.scope.free("S"),
		RawServer:      p.scope.free("idempotentServer"),
		StrictServer:   p.scope.free("idempotentStrict"),
		StrictOptions:  p.scope.free("idempotentStrictOptions"),
		Answer:         p.scope.free("idempotentAnswer"),
		RequestContext: p.scope.free("idempotentContext"),
		AttemptContext: p.scope.free("idempotentAttempt"),
		Writer:         p.scope.free("idempotentWriter"),
		OwnScope:       p.scope.free("idempotentScope"),
		RequestOf:      p.scope.free("idempotentRequest"),
		DecodeJSON:     p.scope.free("idempotentDecode"),
		Keep:           p.scope.free("idempotentKeep"),
		CopyAnswer:     p.scope.free("idempotentCopy"),
	}
}

// suggest returns a request type name whose whole family is free.
func (p *planner) suggest(from string) string {
	for i := 1; ; i++ {
		stem := from + "Once"
		if i > 1 {
			stem += strconv.Itoa(i)
		}
		n := namesOf(stem, stem+requestSuffix)
		n.NewUnprotected = "New" + stem + "UnprotectedRequest"
		free := true
		for _, name := range n.exported() {
			free = free && !p.scope.has(name)
		}
		if free {
			return n.Request
		}
	}
}

// scope is what is declared at package level, by the package and by the plan.
type scope struct{ at map[string]diag.Pos }

func newScope(pkg *gosource.Package) *scope { return &scope{at: maps.Clone(pkg.Scope)} }

func (s *scope) has(name string) bool {
	_, ok := s.at[name]
	return ok
}

// take declares name, or says where it is declared already.
func (s *scope) take(name string, pos diag.Pos) (diag.Pos, bool) {
	if at, ok := s.at[name]; ok {
		return at, true
	}
	s.at[name] = pos
	return diag.Pos{}, false
}

// free declares name, or name2, name3 and so on. It is for names that no user
// types.
func (s *scope) free(name string) string {
	candidate := name
	for i := 2; ; i++ {
		if _, taken := s.take(candidate, diag.Pos{}); !taken {
			return candidate
		}
		candidate = name + strconv.Itoa(i)
	}
}

// lowerFirst makes a name unexported, with initialisms in one case: APIKeys
// becomes apiKeys.
func lowerFirst(name string) string {
	runes := []rune(name)
	for i, r := range runes {
		if !unicode.IsUpper(r) {
			break
		}
		if i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) {
			break
		}
		runes[i] = unicode.ToLower(r)
	}
	lower := string(runes)
	if first, _ := utf8.DecodeRuneInString(lower); unicode.IsUpper(first) || !unicode.IsLetter(first) {
		return "op" + lower
	}
	return lower
}
