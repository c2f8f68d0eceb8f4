package api

import (
	"errors"
	"io"
	"mime/multipart"
	"strings"
)

// readParts prints a multipart body.
func readParts(r *multipart.Reader, err error) (string, error) {
	if err != nil {
		return "", err
	}
	var parts []string
	for {
		part, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return strings.Join(parts, " "), nil
		}
		if err != nil {
			return "", err
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return "", err
		}
		parts = append(parts, part.FormName()+"/"+part.FileName()+"="+string(content))
	}
}
