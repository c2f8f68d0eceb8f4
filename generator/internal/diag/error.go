package diag

import (
	"errors"
	"io/fs"
	"strings"
)

// Reason is an I/O error without the path, which the position already shows.
func Reason(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// OneLine joins the lines of a library's message.
func OneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
