package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/idemgen/idemgen/analyzer/idempotencykey"
)

func TestVetIsTold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want bool
	}{
		{[]string{"-V=full"}, true},
		{[]string{"-flags"}, true},
		{[]string{"/tmp/b001/vet.cfg"}, true},
		{[]string{"-json", "-idempotencykey.raw-http=true", "/tmp/b001/vet.cfg"}, true},
		{[]string{"-fix", "-diff", "/tmp/b001/vet.cfg"}, true},
		{nil, false},
		{[]string{"-check"}, false},
		{[]string{"-v"}, false},
		{[]string{"-check", "-config", "idemgen.cfg"}, false},
		{[]string{"-config=idemgen.cfg"}, false},
		{[]string{"explain", "--config", "idemgen.cfg"}, false},
	} {
		if got := isVet(test.args); got != test.want {
			t.Errorf("isVet(%q) = %v, want %v", test.args, got, test.want)
		}
	}
}

// Who runs idemgen as a vet tool loses no check of go vet.
func TestVetKeepsStandardChecks(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "vet", "help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(out), "Registered analyzers:")
	list, _, _ = strings.Cut(list, "By default")
	var standard []string
	for _, m := range regexp.MustCompile(`(?m)^ {4}([a-z]+) +\S`).FindAllStringSubmatch(list, -1) {
		standard = append(standard, m[1])
	}
	if len(standard) < 30 {
		t.Fatalf("go tool vet help lists %v", standard)
	}
	var ours []string
	for _, check := range vetChecks() {
		ours = append(ours, check.Name)
	}
	for _, name := range standard {
		if !slices.Contains(ours, name) {
			t.Errorf("go vet has the check %s, idemgen has not: raise golang.org/x/tools, or look at isUnreleased", name)
		}
	}
	for _, name := range ours {
		if !slices.Contains(standard, name) && name != idempotencykey.Analyzer.Name {
			t.Errorf("idemgen has the check %s, which this release's go vet has not", name)
		}
	}
}

// shop is a module with mistakes: its lines name the findings they want.
const shop = `package shop

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"github.com/idemgen/idemgen/examples/payments/api"
	hooks "github.com/idemgen/idemgen/examples/webhooks/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

type client interface {
	CreatePayment(ctx context.Context, req api.CreatePaymentIdempotentRequest) error
}

func pay(ctx context.Context, c client, in api.CreatePaymentInput) (err error) {
	for range 3 {
		key := api.NewCreatePaymentIdempotencyKey() // want key-per-attempt
		if err = c.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in)); err == nil {
			return nil
		}
	}
	fmt.Printf("%d payments\n", "no") // want Printf
	return err
}

func empty(ctx context.Context, c client) error {
	return c.CreatePayment(ctx, api.CreatePaymentIdempotentRequest{}) // want zero-key
}

func clock() (api.CreatePaymentIdempotencyKey, error) {
	return idempotency.ParseKey[api.CreatePaymentOp](time.Now().String()) // want unstable-key
}

type service struct {
	pool *pgxpool.Pool
	next client
}

func (s service) CreatePayment(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) (api.CreatePaymentResponseObject, error) {
	_, err := s.pool.Exec(ctx, "INSERT INTO payments DEFAULT VALUES") // want write-outside-tx
	if err != nil {
		return nil, err
	}
	err = pgx.BeginFunc(ctx, s.pool, func(other pgx.Tx) error {
		_, err := other.Exec(ctx, "INSERT INTO payments DEFAULT VALUES") // want write-outside-tx
		return err
	})
	if err != nil {
		return nil, err
	}
	key := idempotency.NewKey[api.CreatePaymentOp]() // want key-in-handler
	return nil, s.next.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, req.Input()))
}

func consume(ctx context.Context, store idempotency.Store[*sql.Tx], db *sql.DB, req idempotency.Request) error {
	_, _, err := idempotency.Do(ctx, store, req, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := db.ExecContext(ctx, "DELETE FROM payments") // want write-outside-tx
		return 0, err
	})
	return err
}

type oldServer struct{ api.StrictServerInterface }

type oldReceiver struct{}

func (oldReceiver) HandlePaymentSettledWebhook(http.ResponseWriter, *http.Request, hooks.PaymentSettledParams) {}

type oldHandlers struct{}

func (oldHandlers) GetAccount(http.ResponseWriter, *http.Request, api.AccountID) {}

func (oldHandlers) CreatePayment(http.ResponseWriter, *http.Request, api.AccountID) {}

func (oldHandlers) GetPayment(http.ResponseWriter, *http.Request, int64) {}

func serve() {
	api.Handler(oldHandlers{})                             // want unprotected-server
	api.Handler(api.NewStrictHandler(oldServer{}, nil))    // want unprotected-server
	hooks.PaymentSettledWebhookHandler(oldReceiver{}, nil) // want unprotected-server
}
`

// vetProject is a module of shop that uses the runtime and generated code of
// this repository, and idemgen as a vet tool that the build cache does not
// know: it looks at every dependency anew.
type vetProject struct{ dir, tool string }

func newVetProject(t *testing.T) vetProject {
	t.Helper()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	p := vetProject{t.TempDir(), filepath.Join(t.TempDir(), "idemgen")}
	write(t, p.dir, "go.mod", "module example.com/shop\n\ngo 1.25.0\n")
	write(t, p.dir, "go.work", fmt.Sprintf("go 1.25.0\n\nuse (\n\t.\n\t%q\n\t%q\n)\n",
		filepath.Join(repository, "runtime"), filepath.Join(repository, "examples")))
	write(t, p.dir, "shop.go", shop)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", p.tool, "-ldflags", fmt.Sprintf("-buildid=%d", time.Now().UnixNano()), ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, out)
	}
	return p
}

// vet runs a program in the project and returns what it prints and its exit code.
func (p vetProject) vet(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	vet := exec.CommandContext(t.Context(), program, args...)
	vet.Dir = p.dir
	vet.Env = append(os.Environ(), "GOWORK="+filepath.Join(p.dir, "go.work"))
	vet.Stdout, vet.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := vet.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), vet.ProcessState.ExitCode()
}

// The go command runs idemgen over a module that uses the real runtime and
// really generated code. Both our findings and go vet's own come out.
//
// Covers CLI-01 and CLI-13.
func TestGoVet(t *testing.T) {
	t.Parallel()
	p := newVetProject(t)
	_, stderr, code := p.vet(t, "go", "vet", "-vettool="+p.tool, "./...")
	var want, got []string
	for i, line := range strings.Split(shop, "\n") {
		if _, finding, ok := strings.Cut(line, "// want "); ok {
			want = append(want, fmt.Sprintf("%d %s", i+1, finding))
		}
	}
	for _, m := range regexp.MustCompile(`(?m)shop\.go:(\d+):\d+: (?:.*\((\S+)\)$|.*(Printf))`).FindAllStringSubmatch(stderr, -1) {
		got = append(got, m[1]+" "+m[2]+m[3])
	}
	slices.Sort(want)
	slices.Sort(got)
	if code != 1 || !slices.Equal(got, want) {
		t.Errorf("exit %d, want 1; found %q, want %q\n%s", code, got, want, stderr)
	}
}

// idemgen vet runs go vet with itself as the tool, and hands flags on.
func TestGoVetFixes(t *testing.T) {
	t.Parallel()
	if strings.HasPrefix(runtime.Version(), "go1.25") {
		t.Skip("go vet has -fix from Go 1.26 on")
	}
	p := newVetProject(t)
	stdout, stderr, code := p.vet(t, p.tool, "vet", "-fix", "-diff", "-idempotencykey", "./...")
	if code != 1 || strings.Count(stdout, "\n-\t") != 1 ||
		!strings.Contains(stdout, "\n+\tkey := api.NewCreatePaymentIdempotencyKey()\n \tfor range 3 {\n-\t\tkey := api.New") {
		t.Errorf("go vet -fix -diff: exit %d\n%s%s", code, stdout, stderr)
	}

	_, stderr, code = p.vet(t, p.tool, "vet", "-fix", "-idempotencykey", "./...")
	fixed, err := os.ReadFile(filepath.Join(p.dir, "shop.go"))
	if code != 0 || err != nil || !strings.Contains(string(fixed), "key := api.NewCreatePaymentIdempotencyKey()\n\tfor range 3 {\n\t\t") {
		t.Errorf("go vet -fix: exit %d, %v\n%s%s", code, err, stderr, fixed)
	}
}
