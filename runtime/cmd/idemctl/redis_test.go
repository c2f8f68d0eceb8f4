package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

// Behind sentinels that have a password of their own, the master is found, and
// taken with the URL's user.
func TestSentinel(t *testing.T) {
	t.Parallel()
	sentinel, master, _ := testenv.StartRedisSentinel(t)
	allow := func(addr string, rules ...any) {
		client := redis.NewClient(&redis.Options{Addr: addr})
		defer func() { _ = client.Close() }()
		if err := client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	allow(master, "app", "on", ">hunter2", "~*", "&*", "+@all")
	allow(sentinel, "watcher", "on", ">hunter3", "&*", "+@all")
	allow(sentinel, "default", "off")

	const right = "&sentinel_username=watcher&sentinel_password=hunter3"
	store := "redis://app:hunter2@" + sentinel + "/1?sentinel=main&protocol=2" + right
	id := idempotency.Identity{Scope: "tenant", Operation: "pay", Key: "key"}
	if err := execute(t, store, id, "first", func() {}); err != nil {
		t.Fatal(err)
	}
	if got := must(t, exitDone, "", "show", "-store", store, "-body", idText(id)); !strings.Contains(got, "first") {
		t.Errorf("show prints\n%s", got)
	}
	if got := must(t, exitDone, "", "list", "-json", "-store", strings.Replace(store, "/1?", "/0?", 1)); got != "" {
		t.Errorf("another database of the server has\n%s", got)
	}
	for wrong, says := range map[string]string{
		strings.Replace(store, right, "", 1):                "sentinel_username=",
		strings.Replace(store, "hunter3", "hunter4", 1):     "sentinel",
		strings.Replace(store, "hunter2", "hunter4", 1):     "WRONGPASS",
		strings.Replace(store, "=main", "=other", 1):        "sentinel",
		strings.Replace(store, "protocol=2", "colour=2", 1): "colour",
		store + "&route_randomly=true":                      "route_randomly",
		"redis://127.0.0.1:1?sentinel=main":                 "sentinel", // which gives up before -timeout
	} {
		code, _, stderr := idemctl("", "list", "-store", wrong)
		if code != exitFailed || !strings.Contains(stderr, says) || strings.Contains(stderr, "hunter") || strings.Contains(stderr, "-timeout") {
			t.Errorf("%s: exit code %d, want a message with %q\n%s", wrong, code, says, stderr)
		}
	}
}

// A record that a hash tag places is listed by everybody, and found by who knows
// the tag; the others are told.
func TestHashTag(t *testing.T) {
	t.Parallel()
	store := fmt.Sprintf("redis://%s/0?prefix=t%d:", testenv.Redis(t), time.Now().UnixNano())
	tagged := store + "&hash_tag=4711"
	id := idempotency.Identity{Scope: "tenant", Operation: "pay", Key: "key"}
	if err := execute(t, tagged, id, "first", func() {}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{store, tagged} {
		if got := must(t, exitDone, "", "list", "-json", "-store", s); !strings.Contains(got, idText(id)) {
			t.Errorf("list -store %s prints %q", s, got)
		}
	}
	code, _, stderr := idemctl("", "show", "-store", store, idText(id))
	if code != exitRefused || !strings.Contains(stderr, "hash_tag=") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	must(t, exitDone, "", "show", "-store", tagged, idText(id))
	must(t, exitDone, "", "release", "-yes", "-store", tagged, idText(id))
	if got := must(t, exitDone, "", "list", "-json", "-store", store); got != "" {
		t.Errorf("left is %s", got)
	}
}

// With TLS the server is verified, by the machine's authorities.
func TestTLS(t *testing.T) {
	t.Parallel()
	addr, certificate := testenv.StartRedisTLS(t)
	store := "rediss://" + addr
	code, _, stderr := idemctl("", "list", "-store", store)
	if code != exitFailed || !strings.Contains(stderr, "certificate") {
		t.Errorf("a certificate that nobody knows: exit code %d\n%s", code, stderr)
	}
	must(t, exitDone, "", "list", "-store", store+"?skip_verify=true")
	cmd := program(t, "list", "-store", store)
	cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+certificate)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.HasPrefix(out, []byte("ID ")) {
		t.Errorf("%v\n%s", err, out)
	}
	code, _, stderr = idemctl("", "list", "-timeout", "5s", "-store", "redis://"+addr)
	if code != exitFailed {
		t.Errorf("without TLS: exit code %d\n%s", code, stderr)
	}
}
