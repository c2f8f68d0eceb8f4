package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// EnvDynamoDB holds the URL of a DynamoDB endpoint where tests may make tables:
// DynamoDB Local's or the service's own, with credentials and region in the
// variables that AWS's tools read.
const EnvDynamoDB = "IDEM_TEST_DYNAMODB"

// dynalitePackage is DynamoDB's older half, strict about requests: it has no
// transactions and no time to live.
const dynalitePackage = "dynalite@4.0.0"

// dynaliteScript serves it on a port of loopback, with tables that are ready at
// once. Its own program ends when a client goes away in the middle of a request.
const dynaliteScript = `
process.on('uncaughtException', err => { if (err.code !== 'ECONNRESET') throw err })
require(process.argv[1])({createTableMs: 0, updateTableMs: 0, deleteTableMs: 0}).listen(process.argv[2], '127.0.0.1')
`

var processDynalite = sync.OnceValues(startDynalite)

var processKumo = sync.OnceValues(startKumo)

// Dynalite returns the URL of an emulator of DynamoDB without transactions,
// which all tests of a process share: a test keeps to tables of its own.
func Dynalite(tb testing.TB) string {
	tb.Helper()
	url, err := processDynalite()
	if err != nil {
		missing(tb, "dynalite", "install node and npm", err)
	}
	return url
}

// Kumo returns the URL of an emulator of DynamoDB with transactions, which all
// tests of a process share. It takes what the service would refuse.
func Kumo(tb testing.TB) string {
	tb.Helper()
	url, err := processKumo()
	if err != nil {
		missing(tb, "kumo", "use a Go that can build "+kumoModule, err)
	}
	return url
}

// DynamoDB returns the URL of the endpoint that [EnvDynamoDB] names, and skips
// the test where it names none.
func DynamoDB(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv(EnvDynamoDB)
	if url == "" {
		tb.Skip("needs DynamoDB itself; to run this test, set " + EnvDynamoDB + " to the URL of an endpoint")
	}
	return url
}

// startDynalite runs the emulator.
func startDynalite() (string, error) {
	installed, err := npmPackage(dynalitePackage)
	if err != nil {
		return "", err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	dir, err := makeDir()
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	Say("dynalite", strings.TrimPrefix(dynalitePackage, "dynalite@"))
	p, err := supervise(dir, "KILL", []string{node, "-e", dynaliteScript, filepath.Join(installed, "node_modules", "dynalite"), port})
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	addr := "127.0.0.1:" + port
	return "http://" + addr, p.waitReady(func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// kumoModule is built apart from this one: see its go.mod.
const kumoModule = "github.com/idemgen/idemgen/runtime/internal/testenv/kumo"

// startKumo builds the emulator and runs it.
func startKumo() (string, error) {
	source, err := exec.CommandContext(context.Background(), "go", "list", "-f", "{{.Dir}}", filepath.ToSlash(filepath.Dir(kumoModule))).Output()
	if err != nil {
		return "", fmt.Errorf("%w: find the source of kumo: %w", errUnavailable, err)
	}
	dir, err := makeDir()
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "kumo")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", program, ".")
	build.Dir = filepath.Join(string(bytes.TrimSpace(source)), "kumo")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("%w: build kumo: %w\n%s", errUnavailable, err, out)
	}
	if err := said("kumo", func() (string, error) { return kumoVersion(program) }); err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	p, err := supervise(dir, "KILL", []string{program})
	if err != nil {
		os.RemoveAll(dir)
		return "", err
	}
	var url string
	err = p.waitReady(func(context.Context) error {
		log, err := os.ReadFile(filepath.Join(dir, "log"))
		line, _, whole := strings.Cut(string(log), "\n")
		if url = line; err == nil && !whole {
			err = errors.New("it has not printed its address")
		}
		return err
	})
	return url, err
}
