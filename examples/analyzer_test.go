package examples_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/examples/internal/e2e"
)

// analyzerDoc shows mistakes and settings, which are no part of this repository.
const analyzerDoc = "../docs/analyzer.md"

// findings counts the mistakes that each section of the document shows.
var findings = map[string]int{
	"zero-key":           3,
	"key-per-attempt":    2,
	"unstable-key":       2,
	"key-in-handler":     1,
	"write-outside-tx":   4,
	"unprotected-server": 2,
}

// mistakes begins the program that the document's snippets are put into.
const mistakes = `package examples

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/idemgen/idemgen/examples/booking/charges"
	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
)

var _, _, _ = fmt.Sprint, time.Now, idempotency.ErrInFlight

var (
	client            api.IdempotentClient
	key               api.CreatePaymentIdempotencyKey
	in                api.CreatePaymentInput
	charge            charges.CreateChargeInput
	order, user, flat string
	args              river.JobArgs
	params            string

	mux   *http.ServeMux
	store idempotency.Store[pgx.Tx]
	scope idempotency.Scope
)

type (
	service      struct{ api.IdempotentServer[pgx.Tx] }
	strictServer struct{ api.StrictServerInterface }
	server       struct{}
)

func (server) GetAccount(http.ResponseWriter, *http.Request, api.AccountID)    {}
func (server) CreatePayment(http.ResponseWriter, *http.Request, api.AccountID) {}
func (server) GetPayment(http.ResponseWriter, *http.Request, int64)            {}

type handler struct {
	pool    *pgxpool.Pool
	queries *queries
	river   *river.Client[pgx.Tx]
	charges charges.IdempotentClient
}

// queries has the shape of what sqlc generates.
type queries struct{ db interface{ Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) } }

func (q *queries) WithTx(tx pgx.Tx) *queries { return &queries{tx} }

func (q *queries) InsertOrder(ctx context.Context, params string) error {
	_, err := q.db.Query(ctx, "INSERT INTO orders (id) VALUES ($1)", params)
	return err
}
`

// What the document calls wrong compiles and is found, and what it calls right
// compiles and is not.
func TestAnalyzerDocument(t *testing.T) {
	t.Parallel()
	program := mistakes
	type part struct {
		section string
		line    int // of the document
		wrong   bool
		last    int // line of the program
	}
	var parts []part
	for _, b := range blocks(t, analyzerDoc) {
		if b.lang != "go" {
			continue
		}
		section := sectionOf(t, analyzerDoc, b.line)
		for _, text := range regexp.MustCompile(`(?m)^// (wrong|right)`).FindAllStringIndex(b.text, -1) {
			body := b.text[text[0]:]
			if end := strings.Index(body, "\n// right"); end >= 0 {
				body = body[:end+1]
			}
			signature := "func (h handler) part%d(ctx context.Context) (err error) {\n"
			if section == "key-in-handler" || section == "write-outside-tx" {
				signature = "func (h handler) part%d(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) (err error) {\n"
			}
			program += fmt.Sprintf(signature, len(parts)) + body + "return err\n}\n"
			parts = append(parts, part{section, b.line, strings.HasPrefix(body, "// wrong"), strings.Count(program, "\n")})
		}
	}

	// The program is laid over this directory, and so has its dependencies.
	dir := t.TempDir()
	source, overlay := filepath.Join(dir, "mistakes.go"), filepath.Join(dir, "overlay.json")
	here, err := filepath.Abs("mistakes.go")
	if err != nil {
		t.Fatal(err)
	}
	over, err := json.Marshal(map[string]any{"Replace": map[string]string{here: source}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, over, 0o600); err != nil {
		t.Fatal(err)
	}
	tool := e2e.Build(t, "github.com/idemgen/idemgen/cmd/idemgen")
	out, err := exec.CommandContext(t.Context(), "go", "vet", "-vettool="+tool, "-overlay="+overlay, "-idempotencykey", ".").CombinedOutput()
	if err == nil {
		t.Fatal("nothing is found")
	}
	found := map[string]int{}
	lines := regexp.MustCompile(`(?m)^.*mistakes\.go:(\d+):\d+: (.*)$`).FindAllStringSubmatch(string(out), -1)
	if len(lines) == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, m := range lines {
		at, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		i := 0
		for parts[i].last < at {
			i++
		}
		found[parts[i].section]++
		if !parts[i].wrong {
			t.Errorf("%s:%d: the right way is reported: %s", analyzerDoc, parts[i].line, m[0])
		}
	}
	for section, want := range findings {
		if found[section] != want {
			t.Errorf("%s: %d mistakes are found under %s, want %d:\n%s", analyzerDoc, found[section], section, want, out)
		}
	}
	for _, p := range parts {
		if findings[p.section] == 0 {
			t.Errorf("%s:%d: nothing is known of the section %s", analyzerDoc, p.line, p.section)
		}
	}
}

// sectionOf returns the heading above a line of a document.
func sectionOf(t *testing.T, document string, line int) string {
	t.Helper()
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	heading := ""
	for _, text := range strings.Split(string(data), "\n")[:line] {
		if title, ok := strings.CutPrefix(text, "## "); ok {
			heading = title
		}
	}
	return heading
}
