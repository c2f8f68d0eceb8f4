package spec

import (
	"fmt"
	"slices"
	"testing"
)

// A key in the body adopts what the document declares for its member, through
// references and alternatives, and a name counts for its own place only.
func TestBodyKeyPolicy(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "s.yaml", head+`x-idempotent-defaults:
  key: {in: body, name: /meta/request~1id}
paths:
  /a:
    post: &operation
      operationId: a
      x-idempotent: true
      requestBody:
        required: true
        content:
          application/json:
            schema:
              oneOf:
                - {allOf: [{$ref: "#/components/schemas/Base"}, {type: object, properties: {n: {type: integer}}}]}
                - {type: object, properties: {meta: {type: object, additionalProperties: {type: string, maxLength: 99}}}}
                - {type: "null"}
      responses: {"204": {description: done}}
  /b:
    post: {<<: *operation, operationId: b, x-idempotent: {key: {in: header}}}
  /c:
    post: {<<: *operation, operationId: c, x-idempotent: {key: {in: header, name: X-Key}}}
  /d:
    post: {<<: *operation, operationId: d, x-idempotent: {key: {maxLength: 40}}}
components:
  schemas:
    Base:
      type: object
      properties:
        meta:
          type: object
          properties:
            request/id: {anyOf: [{$ref: "#/components/schemas/Key"}, {type: "null"}]}
    Key: {type: string, format: uuid, maxLength: 64}
`)
	doc := load(t, Options{File: file})
	for i, want := range []string{
		"/meta/request~1id true uuid 64",
		"Idempotency-Key false opaque 255",
		"X-Key false opaque 255",
		"/meta/request~1id true uuid 40",
	} {
		p := doc.Operations[i].Policy
		if got := fmt.Sprintf("%s %t %s %d", p.Key.Name, p.Key.InBody, p.Key.Format, p.Key.MaxLength); got != want {
			t.Errorf("%s: %s, want %s", doc.Operations[i].OperationID, got, want)
		}
	}
	a := doc.Operations[0].Policy
	if got := a.Key.Path(); !slices.Equal(got, []string{"meta", "request/id"}) {
		t.Errorf("path %q", got)
	}
	for name, want := range map[string]string{
		"key.in": "body defaults", "key.name": "/meta/request~1id defaults", "key.format": "uuid schema", "key.maxLength": "64 schema",
	} {
		s := a.Setting(name)
		if got := fmt.Sprintf("%s %s", s.Value, s.Source); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if s := a.Settings; s[1].Name != "key.in" || s[2].Name != "key.name" {
		t.Errorf("the place of the key is not shown before its name: %v", s)
	}
	if a.Key.IsHeader("/meta/request~1id") || !doc.Operations[2].Policy.Key.IsHeader("x-key") {
		t.Error("IsHeader")
	}
}
