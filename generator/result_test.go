package generator

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"
)

// When one file cannot be put in place, those before it are as they were.
func TestWriteAllOrNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.go")
	if err := os.WriteFile(old, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	// A file cannot replace a directory with something in it.
	blocked := filepath.Join(dir, "blocked.go")
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := writeAll([]Change{
		{File: File{Path: old, Content: []byte("new")}, State: Stale, onDisk: []byte("old")},
		{File: File{Path: filepath.Join(dir, "new.go"), Content: []byte("new")}, State: Missing},
		{File: File{Path: blocked, Content: []byte("new")}, State: Stale},
		{File: File{Path: filepath.Join(dir, "never.go"), Content: []byte("new")}, State: Missing},
	})
	if err == nil {
		t.Fatal("no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if len(names) != 2 {
		t.Errorf("the directory holds %v, want blocked.go and old.go", names)
	}
	content, err := os.ReadFile(old)
	if err != nil || string(content) != "old" {
		t.Errorf("old.go holds %q: %v", content, err)
	}
	if info, err := os.Stat(old); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("old.go: %v, %v", info, err)
	}
}

// A generated file that is a symbolic link stays one.
func TestWriteThroughLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target.go"), filepath.Join(dir, "link.go")
	if err := os.WriteFile(target, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target.go", link); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	if _, err := writeAll([]Change{{File: File{Path: link, Content: []byte("new")}, State: Stale, onDisk: []byte("old")}}); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "new" {
		t.Errorf("the target holds %q: %v", content, err)
	}
	if to, err := os.Readlink(link); err != nil || to != "target.go" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
}

// oapi-codegen reads within the bounds in which idemgen reads: no devices, no
// endless files.
func TestOapiCodegenReadsOnlyFiles(t *testing.T) {
	t.Parallel()
	loader := newOapiLoader()
	if data, err := loader.ReadFromURIFunc(loader, &url.URL{Path: filepath.ToSlash(os.DevNull)}); err == nil {
		t.Errorf("read %d bytes of %s", len(data), os.DevNull)
	}
}
