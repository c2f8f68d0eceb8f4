package idempotency

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"
)

// Scope says who the caller is: a tenant, an account, a user. Records of one
// scope are never visible to another. ctx carries what the authentication
// middleware has put there; header is the request's own.
//
// A scope that is empty, not UTF-8 or holds a NUL byte is answered 401
// scope_missing, and so is an [*Error] with [CodeScopeMissing], whose detail the
// caller gets; any other error 500. None of them is ever shared between callers.
// The name must be stable over all attempts of a request: a session id or an access
// token that is refreshed between attempts makes two callers of one, and the
// retry runs again.
//
// A scope tells callers apart and authenticates nobody: that, and whether the
// caller may, is for a middleware before the generated handler, since the
// handler does not run for a replay.
type Scope func(ctx context.Context, header http.Header) (string, error)

// validName reports whether name, a scope or an operation, says something and
// every database can keep it as text.
func validName(name string) bool {
	return name != "" && utf8.ValidString(name) && strings.IndexByte(name, 0) < 0
}

// Unscoped puts all callers into one scope. It is for servers with a single
// caller: with more, anyone who knows or guesses a key gets another caller's
// answer.
func Unscoped(context.Context, http.Header) (string, error) { return "unscoped", nil }

// ScopeByHeader scopes by the value of a header field, such as an API key.
// The scope is base64url of SHA-256 over the value, so that no credential is
// stored. A missing, blank or repeated field is answered 401 scope_missing, which
// names the field and never its value. It does not check the value. Do not use it
// with tokens that change between attempts; a rotated API key, too, is another
// caller.
func ScopeByHeader(name string) Scope {
	name = http.CanonicalHeaderKey(name)
	return func(_ context.Context, header http.Header) (string, error) {
		lines := header[name]
		what := ""
		switch {
		case len(lines) == 0:
			what = "is missing"
		case len(lines) > 1:
			what = "is sent more than once"
		case strings.TrimSpace(lines[0]) == "":
			what = "is blank"
		}
		if what != "" {
			return "", &Error{Code: CodeScopeMissing, Detail: "the header " + name + " " + what + "; it says who the caller is"}
		}
		sum := sha256.Sum256([]byte(lines[0]))
		return base64.RawURLEncoding.EncodeToString(sum[:]), nil
	}
}
