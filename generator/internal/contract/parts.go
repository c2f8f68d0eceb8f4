package contract

import "github.com/idemgen/idemgen/generator/internal/spec"

// The parts of OpenAPI that a contract adds. The struct fields stand in the
// order in which they are written.
type (
	operation struct {
		Description string              `yaml:"description"`
		Parameters  []parameter         `yaml:"parameters,omitempty"`
		Responses   map[string]response `yaml:"responses,omitempty"`
	}
	parameter struct {
		Name        string `yaml:"name"`
		In          string `yaml:"in"`
		Required    bool   `yaml:"required"`
		Description string `yaml:"description"`
		Schema      schema `yaml:"schema"`
	}
	response struct {
		Description string             `yaml:"description,omitempty"`
		Headers     map[string]header  `yaml:"headers,omitempty"`
		Content     map[string]content `yaml:"content,omitempty"`
	}
	header struct {
		Description string `yaml:"description"`
		Schema      schema `yaml:"schema"`
	}
	content struct {
		Schema schema `yaml:"schema"`
	}
	schema struct {
		Ref         string            `yaml:"$ref,omitempty"`
		Type        string            `yaml:"type,omitempty"`
		Description string            `yaml:"description,omitempty"`
		Format      string            `yaml:"format,omitempty"`
		MinLength   int               `yaml:"minLength,omitempty"`
		MaxLength   int               `yaml:"maxLength,omitempty"`
		Minimum     int               `yaml:"minimum,omitempty"`
		Required    []string          `yaml:"required,omitempty,flow"`
		Properties  map[string]schema `yaml:"properties,omitempty"`
	}
)

// keyParameter declares the key's header. It has neither an example nor a
// default: tools send those as if they were keys.
func keyParameter(p *spec.Policy) parameter {
	key := parameter{
		Name: p.Key.Name, In: "header", Required: p.Required,
		Description: "The key of the request. Retries of one request have one key, and no other request has it.",
		Schema:      schema{Type: "string", MinLength: 1, MaxLength: p.Key.MaxLength},
	}
	switch p.Key.Format {
	case spec.FormatUUID:
		key.Schema = schema{Type: "string", Format: "uuid"}
	case spec.FormatUUIDv7:
		key.Schema = schema{Type: "string", Format: "uuid"}
		key.Description += " It is a UUID of version 7, made when the request is."
	}
	return key
}

// The headers of answers (README, "What a client observes").
const (
	replayedHeader   = "Idempotent-Replayed"
	retryAfterHeader = "Retry-After"
)

var replayed = header{
	Description: "true on an answer that was given before and is repeated for a retry; absent otherwise.",
	Schema:      schema{Type: "boolean"},
}

// refusal is an answer that the generated server gives in place of the handler.
type refusal struct {
	status      string
	description string
	headers     map[string]header
	when        func(*spec.Policy) bool // nil: always
}

var refusals = []refusal{
	{status: "400", description: "The key is missing or invalid, or the body is not valid."},
	{
		status: "409", description: "A request with this key is being executed. Send this one again later, with the same key.",
		headers: map[string]header{retryAfterHeader: {
			Description: "After how many seconds a retry makes sense.",
			Schema:      schema{Type: "integer", Minimum: 1},
		}},
	},
	{
		status: "412", description: "The key is older than answers are kept. Whether its request was executed is not known any more.",
		when: func(p *spec.Policy) bool { return p.Key.Format == spec.FormatUUIDv7 },
	},
	{status: "422", description: "The key was used for a request with other content. Use a new key for a new request."},
}

func (r refusal) response(problem string) response {
	return response{
		Description: r.description,
		Headers:     r.headers,
		Content: map[string]content{
			"application/problem+json": {Schema: schema{Ref: "#/components/schemas/" + problem}},
		},
	}
}

// problemSchema is the body of a refusal.
var problemSchema = schema{
	Type:        "object",
	Description: "Why a request with an idempotency key was refused (RFC 9457).",
	Required:    []string{"type", "title", "status", "code", "retryable"},
	Properties: map[string]schema{
		"type":      {Type: "string", Format: "uri-reference", Description: "A link to an explanation of the code."},
		"title":     {Type: "string", Description: "The code in words."},
		"status":    {Type: "integer", Description: "The status of the answer."},
		"detail":    {Type: "string", Description: "What is wrong with this request."},
		"code":      {Type: "string", Description: "The reason: key_missing, key_invalid, body_invalid, in_flight, key_expired, mismatch, or another."},
		"retryable": {Type: "boolean", Description: "Whether the same request with the same key can succeed later."},
	},
}
