package idemgen_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/zip"
)

// tracked is a file of a module, by its path below the module's directory.
type tracked struct{ dir, path string }

func (f tracked) Path() string                 { return f.path }
func (f tracked) Lstat() (os.FileInfo, error)  { return os.Lstat(filepath.Join(f.dir, f.path)) }
func (f tracked) Open() (io.ReadCloser, error) { return os.Open(filepath.Join(f.dir, f.path)) }

// The modules that users see can be packed as a proxy packs them: no file has a
// name that some system refuses, and none is too large.
func TestModulesCanBePublished(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{".", "runtime"} {
		list := exec.Command("git", "ls-files", "-z")
		list.Dir = dir
		names, err := list.Output()
		if err != nil {
			t.Skipf("SKIP: git does not list the files: %v", err)
		}
		var files []zip.File
		for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
			files = append(files, tracked{dir, name})
		}
		checked, err := zip.CheckFiles(files)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
		}
		if len(checked.Valid) < 100 {
			t.Errorf("%s has %d files: this test does not see them", dir, len(checked.Valid))
		}
	}
}
