package generator_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		// Where one value is built there is nothing to choose, and no hint.
		want := slices.DeleteFunc(slices.Sorted(maps.Keys(test.want)), func(s string) bool { return s == "in" || s == "mode" })
		if !slices.Equal(got, want) {
			t.Errorf("%s: the reader knows %v, the schema %v", what, got, want)
		}
	}
}
