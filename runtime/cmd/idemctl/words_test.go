package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

// What is put into the words of URLs is what stores say.
func TestWords(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	for _, pkg := range []string{"pgxstore", "sqlstore", "redisstore", "dynamostore", "idempotency"} {
		files, err := filepath.Glob("../../" + pkg + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			said.Write(text)
		}
	}
	for i := 0; i < len(words); i += 2 {
		if !strings.Contains(said.String(), words[i]) && !strings.HasPrefix(words[i], "redis: ") { // go-redis says that
			t.Errorf("no store says %q", words[i])
		}
	}
}

// A URL that has the wrong kind of Redis, no rights or no address is answered with
// what to write into it, and with nothing of Go.
func TestRedisInWordsOfURLs(t *testing.T) {
	t.Parallel()
	single, cluster := testenv.Redis(t), testenv.RedisCluster(t)[0]
	sentinel, _, _ := testenv.StartRedisSentinel(t)
	for store, says := range map[string]string{
		"redis://" + single + "?cluster=true":    "leave cluster=true out of the store's URL",
		"redis://" + cluster:                     "add cluster=true to the store's URL",
		"redis://" + sentinel:                    "add sentinel= to the store's URL",
		"redis://" + sentinel + "?sentinel=none": "check sentinel= in the store's URL",
		"redis://" + single + "?sentinel=main":   "no sentinel names the master",
		"redis://nobody:hunter2@" + single:       "USER:PASSWORD@ before the host",
		"redis://127.0.0.1:1":                    "check hosts and ports in the store's URL",
	} {
		code, _, stderr := idemctl("", "list", "-timeout", "20s", "-store", store)
		if code != exitFailed || !strings.Contains(stderr, says) || ofGo.MatchString(stderr) {
			t.Errorf("%s: exit code %d, want %q and nothing of Go\n%s", store, code, says, stderr)
		}
	}
}

// ofGo finds what nobody can write into a URL. Migrate is what the deployment of a
// server may call.
var ofGo = regexp.MustCompile(`[a-z]\.[A-LN-Z]|With[A-Z]|TLSConfig|options|data source name`)
