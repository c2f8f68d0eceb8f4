package testenv

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisTakesArguments(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: StartRedis(t, "--maxmemory-policy", "allkeys-lru")})
	defer client.Close()
	info, err := client.Info(t.Context(), "memory").Result()
	if err != nil || !strings.Contains(info, "maxmemory_policy:allkeys-lru") {
		t.Errorf("%v, %s", err, info)
	}
}

func TestRedisClusterHasThreeMastersWithReplicas(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: RedisCluster(t)})
	defer client.Close()
	shards, err := client.ClusterShards(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	var owned int64
	for _, s := range shards {
		for _, r := range s.Slots {
			owned += r.End - r.Start + 1
		}
		if len(s.Nodes) != 2 {
			t.Errorf("%v have %d nodes, want a master and a replica", s.Slots, len(s.Nodes))
		}
	}
	if len(shards) != 3 || owned != 16384 {
		t.Errorf("%d shards with %d slots, want 3 with 16384", len(shards), owned)
	}
}
