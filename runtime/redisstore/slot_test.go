package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

// Slots are what the server says they are.
func TestSlot(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testenv.RedisCluster(t)})
	t.Cleanup(func() { _ = client.Close() })
	for _, key := range []string{
		"a", "123456789", "{a}b", "b{a}c{d}", "{}a", "{a", "a}b", "a}{b}", "{{a}}", "{a}}", "\x00\xff", strings.Repeat("long", 1000), "{}{a}", "é{é}",
	} {
		want, err := client.ClusterKeySlot(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got := slot(key); int64(got) != want {
			t.Errorf("slot(%q) = %d, the server says %d", key, got, want)
		}
	}
}
