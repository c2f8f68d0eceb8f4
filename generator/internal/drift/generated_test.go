package drift_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/idemgen/idemgen/generator/internal/drift"
)

// generated are the files of the golden cases.
func generated(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("../../../testdata/golden/*/idempotent.gen.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no generated files: %v", err)
	}
	files := make(map[string][]byte, len(paths))
	for _, path := range paths {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = src
	}
	return files
}

// Everything that can stand in a generated file is read.
func TestReadKnowsEveryForm(t *testing.T) {
	t.Parallel()
	for path, src := range generated(t) {
		got, err := drift.Read(path, src)
		if err != nil || len(got.Operations) == 0 || len(got.Methods) == 0 {
			t.Errorf("%s: %d operations, %d methods, %v", path, len(got.Operations), len(got.Methods), err)
		}
		for _, op := range got.Operations {
			if op.ID() == "" || op.Method == "" || op.Path == "" || op.Policy.Retention <= 0 || op.Policy.Key.MaxLength <= 0 || op.Pos.Line == 0 {
				t.Errorf("%s: %+v, %+v", path, op, *op.Policy)
			}
		}
	}
}

// FuzzRead gives the reader files that idemgen may not have written. What it
// does not understand is an error.
func FuzzRead(f *testing.F) {
	const head = "package p\nvar o = idempotency.Operation"
	for _, literal := range []string{
		`{}`, `{ID: "a", Key: idempotency.KeyRule{Header: "K"}, Retention: 2 * 3 * time.Hour}`,
		`{Release: []int{-5, idempotency.StatusClass(), idempotency.StatusClass(f)}}`,
		`{"a", 1}`, `{1: 2}`, `{Key: nil}`, `{Bodies: 1, Optional: maybe, Fingerprint: {Raw: !true}}`,
		`{ID: "\x", Retention: 99999999999999999999}`,
	} {
		f.Add([]byte(head + literal))
	}
	f.Add([]byte("package p\ntype IdempotentServer interface { A; B() }\nvar a, b = 1"))
	for _, src := range generated(f) {
		f.Add(src)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		got, err := drift.Read("f.go", src)
		if err != nil {
			return
		}
		for _, op := range got.Operations {
			if op.Policy == nil || op.Pos.Line < 1 {
				t.Errorf("%+v", op)
			}
		}
	})
}
