package generator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Result is what a run has generated, in memory.
type Result struct {
	// Files are the files to be, oapi-codegen's first if the built-in one ran.
	Files []File
	// Operations counts the operations of the document, and Protected those
	// among them that are marked.
	Operations, Protected int
	// Warnings are findings that did not stop the run.
	Warnings Findings

	document []Operation
	methods  map[string]string // the Go names of marked operations by their IDs
}

// File is a generated file.
type File struct {
	// Path is where the file belongs.
	Path    string
	Content []byte

	ours func([]byte) bool // whether a file on disk may be replaced by this one
}

// Name is the path as findings show it: relative to the working directory
// where that is shorter, with slashes.
func (f File) Name() string { return diag.FileName(f.Path) }

// State says how a generated file compares with the one on disk.
type State string

// The states.
const (
	Fresh   State = "fresh"   // the same, line ends aside
	Stale   State = "stale"   // another one
	Missing State = "missing" // none
)

// Change is the comparison of a generated file with the one on disk.
type Change struct {
	File  File
	State State
	// Diff is a unified diff from the file on disk, "" for a fresh file.
	Diff string

	onDisk []byte
}

// place is where the file's content lies: a symbolic link stays one.
func (c Change) place() string { return realPath(c.File.Path) }

// Finding says what is wrong with a file that is not fresh.
func (c Change) Finding() Diagnostic {
	pos := diag.Pos{File: c.File.Name()}
	if c.State == Missing {
		return diag.Errorf(pos, "missing", "is missing; run go generate and commit the file")
	}
	return diag.Errorf(pos, "stale", "is not what the document says now; run go generate and commit the file")
}

// ErrNothingGenerated says that a result without files was compared or
// written.
var ErrNothingGenerated = errors.New("nothing was generated, so there is nothing to compare or write")

// Check compares every generated file with the one on disk. It returns
// [ErrNothingGenerated] if there is nothing to compare, or an I/O error.
func (r Result) Check() ([]Change, error) {
	if len(r.Files) == 0 {
		return nil, ErrNothingGenerated
	}
	changes := make([]Change, len(r.Files))
	for i, f := range r.Files {
		c := Change{File: f, State: Stale}
		var err error
		c.onDisk, err = os.ReadFile(f.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.State = Missing
		case err != nil:
			return nil, err
		case bytes.Equal(f.Content, unixLines(c.onDisk)):
			c.State = Fresh
		}
		if c.State != Fresh {
			c.Diff = string(diff.Diff(f.Name(), unixLines(c.onDisk), f.Name()+" (generated)", f.Content))
		}
		changes[i] = c
	}
	return changes, nil
}

// unixLines undoes what a checkout on Windows does to line ends.
func unixLines(src []byte) []byte { return bytes.ReplaceAll(src, []byte("\r\n"), []byte("\n")) }

// Write brings the files on disk up to date, all or none, and returns those
// that it wrote. A fresh file is not touched. A file that neither idemgen nor
// oapi-codegen has written is not replaced: that is an error of type
// [Findings], and nothing is written. Other errors are of the file system;
// then the files are as they were.
func (r Result) Write() ([]File, error) {
	changes, err := r.Check()
	if err != nil {
		return nil, err
	}
	var pending []Change
	var refused diag.List
	for _, c := range changes {
		switch {
		case c.State == Fresh:
		case c.State == Stale && !c.File.ours(c.onDisk):
			refused = append(refused, diag.Errorf(diag.Pos{File: c.File.Name()}, "foreign-file",
				"was not written by a generator and is not replaced; rename it, or write another output name"))
		default:
			pending = append(pending, c)
		}
	}
	if err := asError(refused); err != nil {
		return nil, err
	}
	return writeAll(pending)
}

// writeAll stages every file beside its place, then puts all in place. When
// one cannot be, those before it are put back.
func writeAll(pending []Change) (written []File, err error) {
	staged := make([]string, len(pending))
	defer func() {
		for _, temp := range staged {
			if temp != "" {
				os.Remove(temp)
			}
		}
	}()
	for i, c := range pending {
		if staged[i], err = stage(c.place(), c.File.Content); err != nil {
			return nil, err
		}
	}
	for i, c := range pending {
		if err := os.Rename(staged[i], c.place()); err != nil {
			return nil, errors.Join(err, restore(pending[:i]))
		}
		staged[i] = ""
		written = append(written, c.File)
	}
	return written, nil
}

// stage writes a temporary file beside path and returns its name. The name
// begins with a dot, so that the go command never compiles it.
func stage(path string, content []byte) (string, error) {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".idemgen-*.tmp")
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", path, diag.Reason(err))
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		os.Remove(f.Name())
		return "", fmt.Errorf("writing %s: %w", path, err)
	}
	return f.Name(), nil
}

func restore(replaced []Change) error {
	var errs []error
	for _, c := range replaced {
		if c.State == Missing {
			errs = append(errs, os.Remove(c.File.Path))
			continue
		}
		temp, err := stage(c.place(), c.onDisk)
		if err == nil {
			err = os.Rename(temp, c.place())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
