package generator_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/idemgen/idemgen/generator"
)

// The JSON Schema for editors knows the same keys as the reader of the config,
// which names them when it meets one it does not know.
func TestSchemaKnowsEveryKey(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("idemgen.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	type object struct{ Properties map[string]json.RawMessage }
	var schema struct {
		object
		Definitions struct{ Marker object }
	}
	var key object
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(schema.Definitions.Marker.Properties["key"], &key); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		config string
		want   map[string]json.RawMessage
	}{
		"the config": {"unheard-of: 1\n", schema.Properties},
		"the marker": {"spec: openapi.yaml\noperations: {listPayments: {unheard-of: 1}}\n", schema.Definitions.Marker.Properties},
		"the key":    {"spec: openapi.yaml\noperations: {listPayments: {key: {unheard-of: 1}}}\n", key.Properties},
	} {
		dir := project(t, map[string]string{"idemgen.yaml": test.config})
		config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
		if err == nil {
			_, err = generator.Operations(config)
		}
		m := regexp.MustCompile("known are (.*)").FindStringSubmatch(err.Error())
		if m == nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := strings.Split(m[1], ", ")
		slices.Sort(got)
		want := slices.Sorted(maps.Keys(test.want))
		if !slices.Equal(got, want) {
			t.Errorf("%s: the reader knows %v, the schema %v", what, got, want)
		}
	}
}

// Both schemas describe a marker, each for itself, since an editor loads one.
func TestSchemasAgreeOnMarkers(t *testing.T) {
	t.Parallel()
	config, markers := definitions(t, "idemgen.schema.json"), definitions(t, "x-idempotent.schema.json")
	for _, name := range []string{"marker", "duration", "places"} {
		if config[name] == nil || !reflect.DeepEqual(config[name], markers[name]) {
			t.Errorf("the two schemas differ in definitions/%s", name)
		}
	}
}

func definitions(t *testing.T, path string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var schema struct{ Definitions map[string]any }
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Definitions
}

// valid reports whether the YAML is valid by the schema in the file at path.
func valid(t *testing.T, path, text string) bool {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return schema.Validate(document) == nil
}

// marked is a document with these defaults and this marker, where not "".
func marked(defaults, marker string) string {
	document := `openapi: 3.0.3
info: {title: Payments, version: "1"}
paths:
  /payments:
    post:
      operationId: createPayment
      parameters:
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: page, in: query, schema: {type: string}}
      requestBody:
        content:
          application/json: {schema: {type: object, properties: {sent_at: {type: string}, "a/b~c": {type: string}}}}
      responses: {"201": {description: done}}
`
	if marker != "" {
		document += "      x-idempotent: " + marker + "\n"
	}
	if defaults != "" {
		document += "x-idempotent-defaults: " + defaults + "\n"
	}
	return document
}

// verdict is what a schema and the reader say of one input.
type verdict int

const (
	right            verdict = iota
	wrong                    // to both
	wrongToTheReader         // and right by the schema
)

// The schemas and the reader agree on which markers are right, in the document
// and in the config, and which defaults. The reader alone knows bounds that no
// schema can express; what the schema refuses, it always refuses.
func TestSchemasAgreeWithTheReader(t *testing.T) {
	t.Parallel()
	type verdicts struct{ marker, defaults verdict }
	both := func(v verdict) verdicts { return verdicts{v, v} }
	for marker, want := range map[string]verdicts{
		"true":          {right, wrong},
		"false":         {right, wrong},
		"{}":            both(right),
		"null":          both(wrong),
		`"true"`:        both(wrong),
		"yes please":    both(wrong),
		"1":             both(wrong),
		"[]":            both(wrong),
		"{unheard: 1}":  both(wrong),
		"{x-note: 1}":   both(wrong),
		"{Required: 1}": both(wrong),

		"{required: true}":   both(right),
		"{required: false}":  both(right),
		`{required: "true"}`: both(wrong),
		"{required: null}":   both(wrong),

		"{key: {}}":                                  both(right),
		"{key: true}":                                both(wrong),
		"{key: {unheard: 1}}":                        both(wrong),
		"{key: {in: header}}":                        both(right),
		"{key: {in: query}}":                         both(wrong),
		"{key: {name: X-Request-Id}}":                both(right),
		"{key: {name: 5}}":                           both(wrong),
		`{key: {name: ""}}`:                          both(wrong),
		`{key: {name: "X Y"}}`:                       both(wrong),
		`{key: {name: "Schlüssel"}}`:                 both(wrong),
		"{key: {name: authorization}}":               both(wrongToTheReader),
		"{key: {format: opaque}}":                    both(right),
		"{key: {format: uuid}}":                      both(right),
		"{key: {format: uuidv7}}":                    both(right),
		"{key: {format: UUID}}":                      both(wrong),
		"{key: {maxLength: 1}}":                      both(right),
		"{key: {maxLength: 255}}":                    both(right),
		"{key: {maxLength: 0}}":                      both(wrong),
		"{key: {maxLength: 256}}":                    both(wrong),
		"{key: {maxLength: 1.5}}":                    both(wrong),
		`{key: {maxLength: "9"}}`:                    both(wrong),
		"{key: {maxLength: 10.0}}":                   both(wrongToTheReader), // one number to JSON Schema
		"{key: {format: uuid, maxLength: 35}}":       both(wrongToTheReader),
		"{key: {in: header, name: K, format: uuid}}": both(right),

		"{required: false, key: {in: body, name: /sent_at}}":                   both(right),
		"{required: false, key: {in: body, name: /a~1b~0c}}":                   both(right),
		"{required: false, key: {in: body, name: /sent_at, format: uuid}}":     both(right),
		"{key: {in: body, name: /sent_at}}":                                    both(wrongToTheReader), // the body may be absent
		"{required: false, key: {in: body, name: /elsewhere}}":                 both(wrongToTheReader),
		"{required: false, key: {in: body}}":                                   both(wrongToTheReader), // unless the defaults name it
		"{required: false, key: {name: /sent_at}}":                             both(wrongToTheReader), // unless they say in: body
		"{required: false, key: {in: body, name: sent_at}}":                    both(wrong),
		"{required: false, key: {in: body, name: /}}":                          both(wrong),
		"{required: false, key: {in: body, name: /a~2}}":                       both(wrong),
		"{required: false, key: {in: body, name: /sent_at/0}}":                 both(wrongToTheReader),
		"{required: false, key: {in: body, name: //sent_at}}":                  both(wrong),
		"{key: {in: header, name: /sent_at}}":                                  both(wrong),
		"{required: false, key: {in: body, name: /sent_at}, fingerprint: raw}": both(right),
		"{required: false, key: {in: body, name: 5}}":                          both(wrong),
		"{required: false, key: {in: [body], name: /sent_at}}":                 both(wrong),

		"{retention: 24h}":        both(right),
		"{retention: 1h30m}":      both(right),
		"{retention: 1.5h}":       both(right),
		"{retention: 1.h}":        both(right),
		"{retention: .5h}":        both(right),
		"{retention: +90m}":       both(right),
		"{retention: 90000ms}":    both(right),
		"{retention: 70000000µs}": both(right),
		"{retention: 70000000μs}": both(right),
		"{retention: 100000h}":    both(wrongToTheReader),
		"{retention: 24}":         both(wrong),
		"{retention: 0s}":         both(wrong),
		"{retention: 0}":          both(wrong),
		`{retention: "0"}`:        both(wrong),
		"{retention: -1h}":        both(wrong),
		"{retention: 1d}":         both(wrong),
		"{retention: h}":          both(wrong),
		"{retention: .h}":         both(wrong),
		`{retention: ""}`:         both(wrong),
		`{retention: "24h "}`:     both(wrong),
		"{retention: 1 h}":        both(wrong),
		"{retention: null}":       both(wrong),

		"{fingerprint: canonical}":                               both(right),
		"{fingerprint: raw}":                                     both(right),
		"{fingerprint: Raw}":                                     both(wrong),
		"{fingerprint: true}":                                    both(wrong),
		"{fingerprint: {}}":                                      both(wrong),
		"{fingerprint: {exclude: []}}":                           both(wrong),
		"{fingerprint: {exclude: /sent_at}}":                     both(wrong),
		"{fingerprint: {exclude: [/sent_at]}}":                   both(right),
		"{fingerprint: {include: [/sent_at]}}":                   both(right),
		"{fingerprint: {exclude: [/sent_at], include: [/a~1b]}}": both(wrong),
		"{fingerprint: {exclude: [/sent_at, /sent_at]}}":         both(wrong),
		"{fingerprint: {exclude: [sent_at]}}":                    both(wrong),
		"{fingerprint: {exclude: [5]}}":                          both(wrong),
		"{fingerprint: {exclude: [/a~1b~0c]}}":                   both(right),
		"{fingerprint: {exclude: [/a~2]}}":                       both(wrong),
		"{fingerprint: {exclude: [/a~]}}":                        both(wrong),
		"{fingerprint: {exclude: [/elsewhere]}}":                 both(wrongToTheReader),
		`{fingerprint: {exclude: ["header:X-Trace"]}}`:           both(right),
		`{fingerprint: {exclude: ["header:"]}}`:                  both(wrong),
		`{fingerprint: {exclude: ["header:X Y"]}}`:               both(wrong),
		`{fingerprint: {exclude: ["query:page"]}}`:               both(right),
		`{fingerprint: {exclude: ["query:"]}}`:                   both(wrong),
		`{fingerprint: {exclude: ["cookie:c"]}}`:                 both(wrong),
		"{fingerprint: {unheard: [/sent_at]}}":                   both(wrong),

		"{inFlight: reject}":                     both(right),
		"{inFlight: wait}":                       both(wrong),
		"{inFlight: 5s}":                         both(wrong),
		"{inFlight: {}}":                         both(wrong),
		"{inFlight: {waitUpTo: 5s}}":             both(right),
		"{inFlight: {waitUpTo: 0s}}":             both(wrong),
		"{inFlight: {waitUpTo: 61s}}":            both(wrongToTheReader),
		"{inFlight: {waitUpTo: 5s, unheard: 1}}": both(wrong),

		"{mode: transaction}":             both(right),
		"{mode: queue}":                   both(wrong),
		"{mode: lease}":                   both(wrong),
		"{mode: {}}":                      both(wrong),
		"{mode: {lease: 30s}}":            both(right),
		"{mode: {lease: 0s}}":             both(wrong),
		"{mode: {lease: 500ms}}":          both(wrongToTheReader),
		"{mode: {lease: 61m}}":            both(wrongToTheReader),
		"{mode: {lease: 5s, unheard: 1}}": both(wrong),

		"{release: []}":          both(right),
		"{release: [400, 599]}":  both(right),
		"{release: [4XX, 5XX]}":  both(right),
		"{release: [429, 429]}":  both(wrong),
		"{release: [399]}":       both(wrong),
		"{release: [600]}":       both(wrong),
		`{release: ["429"]}`:     both(wrong),
		"{release: [2XX]}":       both(wrong),
		"{release: [5xx]}":       both(wrong),
		"{release: 429}":         both(wrong),
		"{release: {429: true}}": both(wrong),
		"{release: [null]}":      both(wrong),

		"{name: CreatePaymentCall}": {right, wrong},
		"{name: Überweisung}":       both(wrong), // the first letter is ASCII
		"{name: Zahlungsträger_2}":  {right, wrong},
		"{name: createPayment}":     both(wrong),
		`{name: ""}`:                both(wrong),
		"{name: Create-Payment}":    both(wrong),
		"{name: 5}":                 both(wrong),
	} {
		t.Run(marker, func(t *testing.T) {
			t.Parallel()
			inConfig := "spec: openapi.yaml\noperations: {createPayment: " + marker + "}\n"
			for what, test := range map[string]struct {
				document, config string
				valid            bool
				want             verdict
			}{
				"marker": {
					document: marked("", marker), config: "spec: openapi.yaml\n",
					valid: valid(t, "x-idempotent.schema.json", marked("", marker)), want: want.marker,
				},
				"defaults": {
					document: marked(marker, "true"), config: "spec: openapi.yaml\n",
					valid: valid(t, "x-idempotent.schema.json", marked(marker, "true")), want: want.defaults,
				},
				"config": {
					document: marked("", ""), config: inConfig,
					valid: valid(t, "idemgen.schema.json", inConfig), want: want.marker,
				},
			} {
				if test.valid != (test.want != wrong) {
					t.Errorf("%s: valid by the schema: %t", what, test.valid)
				}
				dir := project(t, map[string]string{"openapi.yaml": test.document, "idemgen.yaml": test.config})
				config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
				if err == nil {
					_, err = generator.Operations(config)
				}
				if (err == nil) != (test.want == right) {
					t.Errorf("%s: the reader says %v", what, err)
				}
			}
		})
	}
}

// The schema of the config and its reader agree, but for what only the reader
// knows.
func TestSchemaAgreesWithTheReaderOfConfigs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]verdict{
		"spec: openapi.yaml":                     right,
		"spec: ./somewhere/else.json":            right, // read later
		"{}":                                     wrong,
		"[]":                                     wrong,
		"marker: x-pay-once":                     wrong,
		"spec: 5":                                wrong,
		"spec: null":                             wrong,
		"spec: ''":                               wrong,
		"spec: ' '":                              wrong,
		"spec: https://example.com/openapi.yaml": wrong,
		"{spec: openapi.yaml, unheard: 1}":       wrong,
		"{spec: openapi.yaml, x-note: 1}":        wrong,
		"{spec: openapi.yaml, overlay: overlay.yaml}":                       right,
		"{spec: openapi.yaml, overlay: [overlay.yaml]}":                     wrong,
		"{spec: openapi.yaml, package: .}":                                  right,
		"{spec: openapi.yaml, package: ''}":                                 wrong,
		"{spec: openapi.yaml, package: elsewhere}":                          wrongToTheReader,
		"{spec: openapi.yaml, output: gen.go}":                              right,
		"{spec: openapi.yaml, output: Gen-2.gen.go}":                        right,
		"{spec: openapi.yaml, output: gen}":                                 wrong,
		"{spec: openapi.yaml, output: 5}":                                   wrong,
		"{spec: openapi.yaml, output: sub/gen.go}":                          wrong,
		`{spec: openapi.yaml, output: 'sub\gen.go'}`:                        wrong,
		"{spec: openapi.yaml, output: ../gen.go}":                           wrong,
		"{spec: openapi.yaml, output: _gen.go}":                             wrong,
		"{spec: openapi.yaml, output: .gen.go}":                             wrong,
		"{spec: openapi.yaml, output: gen_test.go}":                         wrong,
		"{spec: openapi.yaml, output: gen_windows.go}":                      wrongToTheReader,
		"{spec: openapi.yaml, oapi-codegen: o.yaml}":                        right,
		"{spec: openapi.yaml, oapi-codegen: true}":                          wrong,
		"{spec: openapi.yaml, oapi-codegen: {}}":                            wrong,
		"{spec: openapi.yaml, oapi-codegen: {config: o.yaml}}":              wrong,
		"{spec: openapi.yaml, oapi-codegen: {command: [make]}}":             right,
		"{spec: openapi.yaml, oapi-codegen: {command: []}}":                 wrong,
		"{spec: openapi.yaml, oapi-codegen: {command: make}}":               wrong,
		"{spec: openapi.yaml, oapi-codegen: {command: [5]}}":                wrong,
		"{spec: openapi.yaml, oapi-codegen: {command: ['']}}":               wrongToTheReader,
		"{spec: openapi.yaml, contract: contract.yaml}":                     right,
		"{spec: openapi.yaml, contract: docs/api.JSON}":                     right,
		"{spec: openapi.yaml, contract: true}":                              wrong,
		"{spec: openapi.yaml, contract: ''}":                                wrong,
		"{spec: openapi.yaml, contract: contract}":                          wrong,
		"{spec: openapi.yaml, contract: https://example.com/contract.yaml}": wrong,
		"{spec: openapi.yaml, contract: openapi.yaml}":                      wrongToTheReader,
		"{spec: openapi.yaml, operations: {}}":                              right,
		"{spec: openapi.yaml, operations: {createPayment: 5}}":              wrong,
		"{spec: openapi.yaml, operations: [createPayment]}":                 wrong,
		"{spec: openapi.yaml, operations: {makePayment: true}}":             wrongToTheReader,
		"{spec: openapi.yaml, operations: {GET /payments: true}}":           wrongToTheReader,
		"{spec: openapi.yaml, marker: x-pay-once}":                          right,
		"{spec: openapi.yaml, marker: pay-once}":                            wrong,
		"{spec: openapi.yaml, marker: ''}":                                  wrong,
		"{spec: openapi.yaml, marker: null}":                                wrong,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			if got := valid(t, "idemgen.schema.json", text); got != (want != wrong) {
				t.Errorf("valid by the schema: %t", got)
			}
			dir := project(t, map[string]string{"idemgen.yaml": text + "\n", "openapi.yaml": marked("", "")})
			config, err := generator.LoadConfig(filepath.Join(dir, "idemgen.yaml"))
			if err == nil && strings.Contains(text, "operations") {
				_, err = generator.Operations(config)
			}
			if (err == nil) != (want == right) {
				t.Errorf("the reader says %v", err)
			}
		})
	}
}

// The schema for documents looks at markers and at nothing else.
func TestSchemaOfDocuments(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../testdata/golden/*/openapi.yaml")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, path := range documents {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !valid(t, "x-idempotent.schema.json", string(text)) {
			t.Errorf("%s is not valid", path)
		}
	}
	for text, want := range map[string]bool{
		"{}": true,
		"{openapi: 3.1.0, info: {x-idempotent: 5}, webhooks: {w: {post: {x-any: 1}}}}":                    true,
		"paths: {/p: {$ref: other.yaml, summary: p, x-any: 1}}":                                           true,
		"paths: {/p: {put: {x-idempotent: {}}, patch: {x-idempotent: true}, delete: {x-idempotent: {}}}}": true,
		"paths: {/p: {get: {x-idempotent: false}}}":                                                       true,
		"paths: {/p: {get: {x-idempotent: true}}}":                                                        false,
		"paths: {/p: {head: {x-idempotent: {}}}}":                                                         false,
		"paths: {/p: {delete: {x-idempotent: 1}}}":                                                        false,
		"components: {pathItems: {p: {post: {x-idempotent: {unheard: 1}}}}}":                              false,
		"webhooks: {w: {post: {x-idempotent: {retention: 1h}}}, v: {$ref: other.yaml}}":                   true,
		"webhooks: {w: {post: {x-idempotent: 1}}}":                                                        false,
		"webhooks: {w: {get: {x-idempotent: true}}}":                                                      false,
		"paths: {/p: {get: {callbacks: {c: {x-a: 1, $ref: a, '{$url}': {post: {x-idempotent: true}}}}}}}": true,
		"paths: {/p: {get: {callbacks: {c: {'{$url}': {post: {x-idempotent: 1}}}}}}}":                     false,
		"paths: {/p: {put: {callbacks: {c: {'{$url}': {post: {x-idempotent: {unheard: 1}}}}}}}}":          false,
		"components: {callbacks: {c: {'{$url}': {head: {x-idempotent: {}}}}}}":                            false,
	} {
		if got := valid(t, "x-idempotent.schema.json", text); got != want {
			t.Errorf("valid: %t, want %t: %s", got, want, text)
		}
	}
}
