package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   string
		want string
		code int
	}{
		"passing tests stay quiet": {
			in: `{"Action":"output","Package":"p","Test":"A","Output":"=== RUN A\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`,
			want: "ok  \tp\t0.1s\n1 passed, 0 failed, 0 skipped\n",
		},
		"a failing test shows all it wrote": {
			in: `{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:3: wrong\n"}
{"Action":"fail","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`,
			want: "    a_test.go:3: wrong\nFAIL\tp\t0.1s\n0 passed, 1 failed, 0 skipped\n",
			code: 1,
		},
		"skips come last with their reason": {
			in: `{"Action":"output","Package":"p","Test":"A","Output":"=== RUN   A\n"}
{"Action":"output","Package":"p","Test":"A","Output":"    a_test.go:3: needs a server\n"}
{"Action":"output","Package":"p","Test":"A","Output":"--- SKIP: A (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"A"}
{"Action":"pass","Package":"p","Test":"B"}
{"Action":"pass","Package":"p"}
`,
			want: "--- SKIP: p A: a_test.go:3: needs a server\n1 passed, 0 failed, 1 skipped\n",
		},
		"a build failure fails": {
			in: `{"ImportPath":"p","Action":"build-output","Output":"a.go:1:1: no\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"pass","Package":"q","Test":"A"}
`,
			want: "a.go:1:1: no\n1 passed, 0 failed, 0 skipped\n",
			code: 1,
		},
		"a test that never ends fails": {
			in: `{"Action":"pass","Package":"p","Test":"A"}
{"Action":"output","Package":"p","Test":"B","Output":"=== RUN   B\n"}
`,
			want: "--- UNFINISHED: p B\n=== RUN   B\n1 passed, 0 failed, 0 skipped\n",
			code: 1,
		},
		"no test at all fails": {
			in:   "go: no such module\n",
			want: "go: no such module\n0 passed, 0 failed, 0 skipped\n",
			code: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			if code := run(strings.NewReader(tt.in), &out, ""); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if out.String() != tt.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), tt.want)
			}
		})
	}
}

// What tests used is printed, and held against the versions that a text names.
func TestServers(t *testing.T) {
	t.Parallel()
	const in = `{"Action":"output","Package":"p","Test":"A","Output":"testenv: tests use Redis 7.0.15\n"}
{"Action":"output","Package":"p","Output":"testenv: tests use PostgreSQL 18.4\n"}
{"Action":"output","Package":"q","Output":"testenv: tests use PostgreSQL 15.20\n"}
{"Action":"output","Package":"q","Output":"testenv: tests use PostgreSQL 15.20\n"}
{"Action":"pass","Package":"p","Test":"A"}
{"Action":"pass","Package":"p"}
`
	const used = "used PostgreSQL 15.20\nused PostgreSQL 18.4\nused Redis 7.0.15\n"
	for text, complaint := range map[string]string{
		"":                                     "",
		"PostgreSQL 15 and 18; Redis 7.0, all": "",
		"Redis 7 alone, PostgreSQL 15.20, 18":  "",
		"PostgreSQL 15 and 18":                 "tests used Redis 7.0.15, which is not promised\n",
		"PostgreSQL 15, Redis 7.0":             "tests used PostgreSQL 18.4, which is not promised\n",
		"PostgreSQL 15, 17 and 18, Redis 7.0":  "PostgreSQL 17 is promised, but no test used it\n",
		"PostgreSQL 1 and 18, Redis 7.0":       "tests used PostgreSQL 15.20, which is not promised\nPostgreSQL 1 is promised, but no test used it\n",
	} {
		var out strings.Builder
		code := run(strings.NewReader(in), &out, text)
		if want := used + complaint + "1 passed, 0 failed, 0 skipped\n"; out.String() != want {
			t.Errorf("%q: printed\n%s\nwant\n%s", text, out.String(), want)
		}
		if (code == 0) != (complaint == "") {
			t.Errorf("%q: exit code %d", text, code)
		}
	}
}

func TestPromises(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("# A\nRedis 6\n\n## Tested on\nRedis 7\n\n## Others\nRedis 8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := promises(file + "#Tested on"); text != "Redis 7\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	for _, place := range []string{file + "#Nowhere", file + "x#Tested on"} {
		if text, err := promises(place); err == nil {
			t.Errorf("%s: %q, and no error", place, text)
		}
	}
	if text, err := promises(""); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
