package generator_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator"
	"github.com/idemgen/idemgen/generator/internal/diag"
)

// A fragment stands in the place that its code is about. Each returns the files
// of a project that is right but for the fragment.
var fragmentPlaces = map[string]func(fragment string) map[string]string{
	"body-lost":         inOperation,
	"config-operation":  inConfig,
	"contract":          inContract,
	"duplicate-key":     inOperation,
	"fingerprint-place": inOperation,
	"go-declared-twice": inConfigOfClient,
	"go-dot-imports":    inOapiConfig,
	"go-no-files":       asConfig,
	"go-no-receiver":    inReceiverConfig,
	"key-body":          inOperation,
	"key-header":        inOperation,
	"key-unchecked":     inOperation,
	"marker-method":     inPath,
	"marker-misspelt":   inOperation,
	"marker-place":      inPaths,
	"marker-stream":     inOperation,
	"marker-twice":      inConfig,
	"missing-key":       asConfig,
	"name-collision":    inOperation,
	"nothing-marked":    inPath,
	"operation-id":      inPath,
	"overlay-invalid":   inOverlay,
	"ref-invalid":       inOperation,
	"short-retention":   inOperation,
	"spec-version":      inDocument,
	"unknown-key":       inOperation,
	"wrong-type":        inOperation,
	"wrong-value":       inOperation,
}

// changedFragments are those of an operation that was right, and is wrong now
// that it has changed.
var changedFragments = []string{
	"fingerprint-changed", "in-flight-changed", "key-changed", "mode-changed", "operation-renamed",
	"protection-lost", "release-changed", "retention-changed",
}

// otherFragments are those that need more than a document and configs.
var otherFragments = map[string]string{
	"go-framework":      "has templates of the user's own, which the built-in oapi-codegen does not take",
	"go-two-outputs":    "is about files that another run has left",
	"pattern-prefix":    "is about the output of an older oapi-codegen",
	"pattern-refused":   "shows paths without their operations",
	"protection-gained": "changes an operation that has no marker",
}

// Every wrong fragment of an explanation is answered with its code, and every
// right one with nothing.
func TestFragmentsOfExplanations(t *testing.T) {
	t.Parallel()
	for _, e := range diag.Explanations() {
		place, known := fragmentPlaces[e.Code]
		changed := slices.Contains(changedFragments, e.Code)
		_, exempt := otherFragments[e.Code]
		if count(e.Wrong != "") != count(known)+count(changed)+count(exempt) {
			t.Errorf("%s: say in fragmentPlaces where its fragments stand, or in otherFragments why they are not tried", e.Code)
		}
		try := func(fragment string) generator.Findings { return findings(t, place(fragment)) }
		switch {
		case changed:
			try = func(fragment string) generator.Findings {
				return changes(t, inOperation(e.Right), inOperation(fragment))
			}
		case !known:
			continue
		}
		t.Run(e.Code, func(t *testing.T) {
			t.Parallel()
			wrong := try(e.Wrong)
			if len(wrong) == 0 {
				t.Errorf("nothing is reported of:\n%s", e.Wrong)
			}
			for _, d := range wrong {
				if d.Code != e.Code {
					t.Errorf("%s [%s]", d, d.Code)
				}
			}
			if right := try(e.Right); len(right) > 0 {
				t.Errorf("%v\n%s", right, e.Right)
			}
		})
	}
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// findings runs a project and returns all that it has to say.
func findings(t *testing.T, files map[string]string) generator.Findings {
	t.Helper()
	config, err := generator.LoadConfig(filepath.Join(project(t, files), "idemgen.yaml"))
	var result generator.Result
	if err == nil {
		result, err = generator.Generate(t.Context(), config)
	}
	return all(t, result, err)
}

// changes compares the documents of two projects.
func changes(t *testing.T, before, now map[string]string) generator.Findings {
	t.Helper()
	config, err := generator.LoadConfig(filepath.Join(project(t, now), "idemgen.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := generator.Compare(config, filepath.Join(project(t, before), "openapi.yaml"))
	return all(t, result, err)
}

// all returns the findings of a run, errors and warnings.
func all(t *testing.T, result generator.Result, err error) generator.Findings {
	t.Helper()
	var found generator.Findings
	if err != nil && !errors.As(err, &found) {
		t.Fatal(err)
	}
	return append(found, result.Warnings...)
}

// with adds the lines of rest whose key the fragment does not have.
func with(fragment string, rest ...string) string {
	for _, line := range rest {
		key, _, _ := strings.Cut(line, ":")
		if !strings.Contains("\n"+fragment, "\n"+key+":") {
			fragment += "\n" + line
		}
	}
	return fragment + "\n"
}

func indented(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+by) + "\n"
}

func inPaths(fragment string) map[string]string {
	return inDocument("openapi: 3.0.3\npaths:\n" + indented(fragment, "  "))
}

func inPath(fragment string) map[string]string {
	return inPaths("/payments:\n" + indented(fragment, "  "))
}

func inOperation(fragment string) map[string]string {
	return inPath("post:\n" + indented(with(fragment,
		"operationId: createPayment",
		"x-idempotent: true",
		"requestBody: {content: {application/json: {schema: {$ref: '#/components/schemas/Card'}}}}",
		`responses: {"201": {description: done}}`,
	), "  "))
}

func inDocument(fragment string) map[string]string {
	return map[string]string{"openapi.yaml": with(fragment,
		`info: {title: Payments, version: "1"}`,
		`paths: {/payments: {post: {operationId: createPayment, x-idempotent: true, responses: {"201": {description: done}}}}}`,
	) + `components:
  parameters:
    Trace: {name: X-Trace, in: header, schema: {type: string}}
  schemas:
    Card: {type: object, properties: {card: {type: string}, sent_at: {type: string}, trace: {type: string}}}
    Iban: {type: object, properties: {iban: {type: string}}}
    Source: {oneOf: [{$ref: '#/components/schemas/Card'}, {$ref: '#/components/schemas/Iban'}]}
    CreatePaymentIdempotentRequest: {type: object, properties: {card: {type: string}}}
`}
}

func inConfig(fragment string) map[string]string {
	files := inPaths(`/payments: {post: {operationId: createPayment, responses: {"201": {description: done}}}}
/refunds: {post: {operationId: createRefund, responses: {"201": {description: done}}}}`)
	files["idemgen.yaml"] = with(fragment, "spec: openapi.yaml", "oapi-codegen: oapi-codegen.yaml")
	return files
}

func inContract(fragment string) map[string]string {
	files := inDocument("openapi: 3.0.3\n" + fragment)
	files["idemgen.yaml"] = "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\ncontract: contract.yaml\n"
	files["payments.yaml"] = `post: {operationId: createPayment, x-idempotent: true, responses: {"201": {description: done}}}` + "\n"
	return files
}

func asConfig(fragment string) map[string]string {
	return map[string]string{"idemgen.yaml": fragment + "\n"}
}

func inOapiConfig(fragment string) map[string]string {
	return map[string]string{"oapi-codegen.yaml": with(fragment,
		"package: payments",
		"output: api.gen.go",
		"generate: {models: true, std-http-server: true, strict-server: true}",
	)}
}

// inConfigOfClient is beside a document that names a schema as the client's
// answers are named.
func inConfigOfClient(fragment string) map[string]string {
	return map[string]string{
		"openapi.yaml": strings.Replace(document, "{description: all}",
			"{description: all, content: {application/json: {schema: {$ref: '#/components/schemas/CreatePaymentResponse'}}}}", 1) +
			"components: {schemas: {CreatePaymentResponse: {type: object, properties: {id: {type: string}}}}}\n",
		"oapi-codegen.yaml": with(fragment,
			"package: payments",
			"output: api.gen.go",
			"generate: {models: true, client: true}",
		),
	}
}

func inReceiverConfig(fragment string) map[string]string {
	files := inOapiConfig(fragment)
	files["openapi.yaml"] = `openapi: 3.1.0
info: {title: Payments, version: "1"}
webhooks: {paid: {post: {x-idempotent: true, responses: {"204": {description: done}}}}}
`
	return files
}

func inOverlay(fragment string) map[string]string {
	files := inConfig("overlay: overlay.yaml")
	files["overlay.yaml"] = "overlay: 1.0.0\ninfo: {title: Markers, version: \"1\"}\n" + fragment + "\n"
	return files
}
