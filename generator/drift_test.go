package generator_test

import (
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/generator"
)

// What a generated file says of its operations is what its document says of
// them, whatever the markers hold: nothing is lost on the way into Go and back.
// The file is made stale by a comment.
func TestGoldenFilesHaveNotDrifted(t *testing.T) {
	t.Parallel()
	configs, err := filepath.Glob("../testdata/golden/*/idemgen.yaml")
	if err != nil || len(configs) == 0 {
		t.Fatalf("no golden cases: %v", err)
	}
	for _, path := range configs {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			t.Parallel()
			config, err := generator.LoadConfig(path)
			if err != nil {
				t.Fatal(err)
			}
			result, err := generator.Generate(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			compared := false
			for i, f := range result.Files {
				result.Files[i].Content = append([]byte("// Stale.\n\n"), f.Content...)
			}
			changes, err := result.Check()
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range changes {
				compared = compared || c.File.Path == config.Output && c.State == generator.Stale
				for _, finding := range c.Drift(result) {
					t.Error(finding)
				}
			}
			if !compared {
				t.Error("nothing was compared")
			}
		})
	}
}
