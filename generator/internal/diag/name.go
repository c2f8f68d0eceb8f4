package diag

import (
	"os"
	"path/filepath"
)

// FileName is the form of a path in findings: relative to the working
// directory where that is shorter, with slashes.
func FileName(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return filepath.ToSlash(path)
	}
	name := abs
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(dir, abs); err == nil && len(rel) < len(abs) {
			name = rel
		}
	}
	return filepath.ToSlash(name)
}
