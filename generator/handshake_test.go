package generator_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Generated code does not build with a runtime that is older than it, and says
// at that place what to do.
//
// Covers GEN-29.
func TestRuntimeTooOld(t *testing.T) {
	t.Parallel()
	doc, err := filepath.Abs("../runtime/idempotency/doc.go")
	if err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	const handshake = "const IsAtLeastVersion0_1 = true"
	old := strings.Replace(string(src), handshake, "", 1)
	if old == string(src) {
		t.Fatalf("%s has no %s", doc, handshake)
	}
	dir := t.TempDir()
	older := filepath.Join(dir, "doc.go")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{doc: older}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{older: old, filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "./golden/std-http")
	cmd.Dir = filepath.Join("..", "testdata")
	out, err := cmd.CombinedOutput()
	if err == nil || bytes.Count(out, []byte("idempotent.gen.go:")) != 1 || !bytes.Contains(out, []byte("undefined: idempotency.IsAtLeastVersion0_1")) {
		t.Fatalf("%v\n%s", err, out)
	}
	generated, err := os.ReadFile("../testdata/golden/std-http/idempotent.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	const advice = "// go get github.com/idemgen/idemgen/runtime@latest\nconst _ = idempotency.IsAtLeastVersion0_1\n"
	if !strings.Contains(string(generated), advice) {
		t.Errorf("no advice above the line that does not compile:\n%s", advice)
	}
}
