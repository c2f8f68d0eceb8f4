// Package diag is what the generator has to say about its input: findings
// with a position, a stable code and a message that says what to do.
package diag

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// Pos is a place in a file the user wrote. The zero Pos is no place at all.
type Pos struct {
	// File is relative to the working directory where that is possible, with
	// slashes.
	File string
	Line int // from 1; 0 when only the file is known
	Col  int // from 1, in characters; 0 when only the line is known
}

// String returns file:line:col, as far as they are known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	default:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	}
}

// Diagnostic is one finding.
type Diagnostic struct {
	Pos
	// Code names the kind of finding, such as "marker-place". It stays
	// the same when the message is reworded.
	Code string
	// Message is one line: what is wrong and what to do.
	Message string
	// Warning says that the run may go on. All other findings stop it before
	// a file is written.
	Warning bool
}

// String returns "file:line:col: message", the form of the Go compiler;
// warnings say so.
func (d Diagnostic) String() string {
	msg := d.Message
	if d.Warning {
		msg = "warning: " + msg
	}
	if d.Pos == (Pos{}) {
		return msg
	}
	return printable(d.Pos.String()) + ": " + msg // a file's name may be anything, too
}

// Unreadable is the code of a file that cannot be read.
const Unreadable = "file-unreadable"

// Errorf returns an error finding.
func Errorf(pos Pos, code, format string, args ...any) Diagnostic {
	return Diagnostic{Pos: pos, Code: code, Message: printable(fmt.Sprintf(format, args...))}
}

// Warningf returns a finding that does not stop the run.
func Warningf(pos Pos, code, format string, args ...any) Diagnostic {
	return Diagnostic{Pos: pos, Code: code, Message: printable(fmt.Sprintf(format, args...)), Warning: true}
}

// printable keeps text of a document from breaking the line or steering the
// terminal.
func printable(message string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, message)
}

// List is the findings of a run.
type List []Diagnostic

// Sorted returns the findings by file, line, column and message, each once.
func (l List) Sorted() List {
	sorted := slices.Clone(l)
	slices.SortStableFunc(sorted, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Col, b.Col),
			cmp.Compare(a.Message, b.Message),
			cmp.Compare(a.Code, b.Code),
		)
	})
	return slices.Compact(sorted)
}

// HasErrors reports whether a finding stops the run.
func (l List) HasErrors() bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return !d.Warning })
}
