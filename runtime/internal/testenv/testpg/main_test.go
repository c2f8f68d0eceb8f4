package main

import (
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

func TestRunPassesTheExitCodeOn(t *testing.T) {
	// A server named by the user is passed on, and none is started.
	t.Setenv(testenv.EnvPostgres, "postgres://named.example/db")
	tests := map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"done":            {[]string{"--", "sh", "-c", "echo $IDEM_TEST_POSTGRES"}, 0, "postgres://named.example/db\n", ""},
		"failed":          {[]string{"-durable", "--", "sh", "-c", "exit 7"}, 7, "", ""},
		"killed":          {[]string{"sh", "-c", "kill -KILL $$"}, failed, "", "testpg: signal: killed\n"},
		"no command":      {nil, failed, "", "usage: testpg [-durable] -- command [argument ...]\n"},
		"unknown command": {[]string{"no-such-command"}, failed, "", "testpg: exec: \"no-such-command\": executable file not found in $PATH\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			if code := run(tt.args, nil, &stdout, &stderr); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if stdout.String() != tt.stdout || stderr.String() != tt.stderr {
				t.Errorf("stdout %q, stderr %q, want %q and %q", stdout.String(), stderr.String(), tt.stdout, tt.stderr)
			}
		})
	}
}

func TestRunGivesTheCommandAServer(t *testing.T) {
	testenv.Postgres(t) // skips where no server is to be had
	t.Setenv(testenv.EnvPostgres, "")
	var stdout, stderr strings.Builder
	if code := run([]string{"--", "sh", "-c", "echo $IDEM_TEST_POSTGRES"}, nil, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	if strings.Contains(stderr.String(), "tests that need it are skipped") {
		t.Skip(stderr.String()) // only the user's own server is to be had
	}
	if !strings.HasPrefix(stdout.String(), "postgres://postgres@127.0.0.1:") {
		t.Errorf("the command sees %q, stderr %q", stdout.String(), stderr.String())
	}
}
