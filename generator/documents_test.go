package generator_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/gosource"
)

// refusedOperations says how many operations of a document are refused, by the
// code of the finding, and plainRefused which more without a strict server.
var (
	refusedOperations = map[string]map[string]int{
		"keys":      {"key-header": 1},    // its value is declared as a text
		"responses": {"marker-stream": 1}, // an event stream
	}
	plainRefused = map[string]map[string]int{
		"media-types": {"plain-body": 1}, // two bodies that only a parameter of the media type tells apart
	}
)

// Documents of awkward shapes, one for each kind of trouble, become code that
// compiles for every server, with every operation marked that may change
// something. The document named broken holds what oapi-codegen makes Go of that
// does not compile, for which our file is not to blame.
//
// Covers GEN-11, GEN-20, GEN-22 and GEN-24.
func TestDocuments(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("testdata/documents/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	servers := strings.FieldsFunc(gosource.Servers(","), func(r rune) bool { return r == ',' || r == ' ' })
	for _, dir := range dirs {
		for _, server := range servers {
			for _, mode := range []string{"strict", "plain"} {
				name := filepath.Base(dir)
				t.Run(name+"/"+server+"/"+mode, func(t *testing.T) {
					t.Parallel()
					files := filesOf(t, dir)
					files["idemgen.yaml"] = "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\n"
					files["oapi-codegen.yaml"] += wholeOapiConfig(server, mode)
					result, refused := allMarked(t, project(t, files), "true")
					want := make(map[string]int)
					maps.Copy(want, refusedOperations[name])
					if mode == "plain" {
						maps.Copy(want, plainRefused[name])
					}
					if !maps.Equal(refused, want) {
						t.Errorf("refused operations are %v, want %v", refused, want)
					}
					if theirs := typeChecked(t, result); (theirs > 0) != (name == "broken") {
						t.Errorf("oapi-codegen's own code has %d errors", theirs)
					}
				})
			}
		}
	}
}

// Two runs in two directories give the same bytes, also where every line of the
// second one's files ends as Windows ends it.
//
// Covers GEN-30.
func TestDocumentsSameBytes(t *testing.T) {
	t.Parallel()
	dirs, err := filepath.Glob("testdata/documents/*")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no documents: %v", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			files := filesOf(t, dir)
			files["idemgen.yaml"] = "spec: openapi.yaml\noapi-codegen: oapi-codegen.yaml\n"
			files["oapi-codegen.yaml"] += wholeOapiConfig("std-http-server", "strict")
			first, _ := allMarked(t, project(t, files), "true")
			for name, content := range files {
				files[name] = strings.ReplaceAll(content, "\n", "\r\n")
			}
			second, _ := allMarked(t, project(t, files), "true")
			for i, f := range first.Files {
				if !bytes.Equal(f.Content, second.Files[i].Content) {
					t.Errorf("%s differs", f.Name())
				}
			}
		})
	}
}

// filesOf returns the files in a directory and below, by their names in it.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
