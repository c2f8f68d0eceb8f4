package diag

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"required", "key", "retention", "inFlight"}
	for name, want := range map[string]string{
		"retenton":  "retention",
		"Retention": "retention",
		"rtention":  "retention",
		"infligth":  "inFlight", // two letters swapped
		"kye":       "key",
		"ky":        "key",
		"ttl":       "",
		"x":         "",
		"":          "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]Diagnostic{
		"a.yaml:3:7: wrong":        Errorf(Pos{"a.yaml", 3, 7}, "c", "wrong"),
		"a.yaml:3: wrong":          Errorf(Pos{"a.yaml", 3, 0}, "c", "wrong"),
		"a.yaml: warning: careful": Warningf(Pos{File: "a.yaml"}, "c", "careful"),
		"wrong":                    Errorf(Pos{}, "c", "wrong"),
		"a\uFFFDb\uFFFD[31m":       Errorf(Pos{}, "c", "%s", "a\nb\x1b[31m"),
		"a\uFFFDb.yaml:3: wrong":   Errorf(Pos{"a\nb.yaml", 3, 0}, "c", "wrong"),
	} {
		if got := d.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSorted(t *testing.T) {
	t.Parallel()
	a := Errorf(Pos{"a", 1, 2}, "c", "m")
	b := Errorf(Pos{"a", 1, 10}, "c", "m")
	c := Warningf(Pos{"a", 2, 1}, "c", "m")
	d := Errorf(Pos{"b", 1, 1}, "c", "m")
	got := List{d, c, b, a, b, d}.Sorted()
	if !slices.Equal(got, List{a, b, c, d}) {
		t.Errorf("got %v", got)
	}
	if (List{c}).HasErrors() || !(List{c, a}).HasErrors() {
		t.Error("warnings stop the run, or errors do not")
	}
}

func TestFileName(t *testing.T) {
	t.Parallel()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "x", "a.yaml"):           "x/a.yaml",
		filepath.Join("x", "..", "a.yaml"):          "a.yaml",
		filepath.Join(filepath.Dir(dir), "a.yaml"):  "../a.yaml",
		string(filepath.Separator) + "a.yaml":       "/a.yaml",
		string(filepath.Separator) + "tmp/x/a.yaml": "/tmp/x/a.yaml",
	} {
		if got := FileName(path); got != want {
			t.Errorf("FileName(%q) = %q, want %q", path, got, want)
		}
	}
}
