package gosource

import "strings"

// Framework is what a server is generated for, as far as our code differs: it
// has a template of this name.
type Framework string

// The frameworks.
const (
	NetHTTP Framework = "nethttp" // chi and gorilla too
	Echo    Framework = "echo"
	Gin     Framework = "gin"
	Iris    Framework = "iris"
	Fiber   Framework = "fiber"
)

// framework says how to recognise a framework and what its strict server is.
type framework struct {
	name    Framework
	servers []string // settings of oapi-codegen that generate for it
	// first are the types that the methods of ServerInterface begin with.
	first []typeName
	// writer is what answers are written to.
	writer typeName
	// options is the type of the strict server's options. Some versions of
	// oapi-codegen have none for gin.
	options  string
	declares []string // by every version, with a strict server
	// responseOwner is what differs between the two versions of echo.
	responseOwner string
	contexts      Contexts // empty for frameworks other than fiber
}

// Contexts are the methods of fiber's context that return the request's context,
// which Set before the name sets, and fasthttp's.
type Contexts struct{ User, Fasthttp string }

type typeName struct{ path, name string }

func (t typeName) String() string { return assumedName(t.path) + "." + t.name }

var frameworks = []framework{
	{
		name:     NetHTTP,
		servers:  []string{"std-http-server", "chi-server", "gorilla-server"},
		first:    []typeName{{"net/http", "ResponseWriter"}, {"net/http", "*Request"}},
		writer:   typeName{"net/http", "ResponseWriter"},
		options:  "StrictHTTPServerOptions",
		declares: []string{"StrictHTTPServerOptions", "StrictMiddlewareFunc", "NewStrictHandler", "NewStrictHandlerWithOptions"},
	},
	{
		name:          Echo,
		servers:       []string{"echo-server"},
		first:         []typeName{{"github.com/labstack/echo/v4", "Context"}},
		writer:        typeName{"net/http", "ResponseWriter"},
		declares:      []string{"StrictMiddlewareFunc", "NewStrictHandler"},
		responseOwner: "c.Echo()",
	},
	{
		name:          Echo,
		servers:       []string{"echo5-server"},
		first:         []typeName{{"github.com/labstack/echo/v5", "*Context"}},
		writer:        typeName{"net/http", "ResponseWriter"},
		declares:      []string{"StrictMiddlewareFunc", "NewStrictHandler"},
		responseOwner: "c.Logger()",
	},
	{
		name:     Gin,
		servers:  []string{"gin-server"},
		first:    []typeName{{"github.com/gin-gonic/gin", "*Context"}},
		writer:   typeName{"net/http", "ResponseWriter"},
		options:  "StrictGinServerOptions",
		declares: []string{"StrictMiddlewareFunc", "NewStrictHandler"},
	},
	{
		name:     Iris,
		servers:  []string{"iris-server"},
		first:    []typeName{{"github.com/kataras/iris/v12", "Context"}},
		writer:   typeName{"github.com/kataras/iris/v12", "Context"},
		declares: []string{"StrictMiddlewareFunc", "NewStrictHandler"},
	},
	{
		name:     Fiber,
		servers:  []string{"fiber-server"},
		first:    []typeName{{"github.com/gofiber/fiber/v2", "*Ctx"}},
		writer:   typeName{"github.com/gofiber/fiber/v2", "*Ctx"},
		declares: []string{"StrictMiddlewareFunc", "NewStrictHandler"},
		contexts: Contexts{User: "UserContext", Fasthttp: "Context"},
	},
	{
		name:     Fiber,
		servers:  []string{"fiber-v3-server"},
		first:    []typeName{{"github.com/gofiber/fiber/v3", "Ctx"}},
		writer:   typeName{"github.com/gofiber/fiber/v3", "Ctx"},
		declares: []string{"StrictMiddlewareFunc", "NewStrictHandler"},
		contexts: Contexts{User: "Context", Fasthttp: "RequestCtx"},
	},
}

// Servers lists the settings of oapi-codegen whose servers are supported, with
// a word before the last one.
func Servers(word string) string {
	var all []string
	for _, f := range frameworks {
		all = append(all, f.servers...)
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " " + word + " " + all[last]
}

// framework finds out what the server is generated for, and says what it found
// if that is not known.
func (l *loader) framework(pkg *Package, server interfaceMethods) *framework {
	if len(server.methods) == 0 {
		l.errorf(l.pos(l.types[serverInterface].spec.Name), "go-no-operations", "ServerInterface has no methods: the document has no operations, or the oapi-codegen config leaves all of them out")
		return nil
	}
	m := server.methods[0]
	params := fields(server.file, m.typ.Params, 0)
	if known := frameworkOf(params); known != nil {
		pkg.Context = params[0].Type
		return known
	}
	l.errorf(l.pos(m.name), "go-framework", "this server is generated for %s; idemgen supports %s: choose one of them under generate: in the oapi-codegen config", packageOf(params), Servers("and"))
	return nil
}

// frameworkOf returns what a method with these parameters is generated for, nil
// if that is not known.
func frameworkOf(params []Field) *framework {
	for i := range frameworks {
		if frameworks[i].takes(params) {
			return &frameworks[i]
		}
	}
	return nil
}

// packageOf names what a method with these parameters is generated for.
func packageOf(params []Field) string {
	if len(params) == 0 {
		return "no known framework"
	}
	if imports := params[0].Type.Imports(); len(imports) > 0 {
		return imports[0].Path
	}
	return params[0].Type.String()
}

func (f *framework) takes(params []Field) bool {
	if len(params) < len(f.first) {
		return false
	}
	for i, t := range f.first {
		if !params[i].Type.Is(t.path, t.name) {
			return false
		}
	}
	return true
}
