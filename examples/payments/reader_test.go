package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The service's own pool cannot write, so a handler cannot get around the
// transaction that it is given.
// Covers CRA-12.
func TestServiceCannotWriteOutsideItsTransaction(t *testing.T) {
	t.Parallel()
	writer, reader, err := open(filepath.Join(t.TempDir(), "payments.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	defer reader.Close()
	if _, err := prepare(t.Context(), writer, reader); err != nil {
		t.Fatal(err)
	}
	_, err = reader.ExecContext(t.Context(), `INSERT INTO payments (sender, payee, amount) VALUES ('alice', 'bob', 1)`)
	if err == nil || !strings.Contains(err.Error(), "readonly") {
		t.Errorf("the reading pool wrote: %v", err)
	}
}
