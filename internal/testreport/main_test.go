package main

import (
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
			if code := run(strings.NewReader(tt.in), &out); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if out.String() != tt.want {
				t.Errorf("printed\n%s\nwant\n%s", out.String(), tt.want)
			}
		})
	}
}
