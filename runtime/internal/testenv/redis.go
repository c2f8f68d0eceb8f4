package testenv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// EnvRedis holds the address (host:port) of a Redis server whose data may
	// be written to.
	EnvRedis = "IDEM_TEST_REDIS"
	// EnvRedisCluster holds addresses of nodes of a Redis Cluster, with commas
	// between them.
	EnvRedisCluster = "IDEM_TEST_REDIS_CLUSTER"
)

// redisImage is what runs where no Redis is installed.
const redisImage = "redis:7-alpine"

// forgetful are arguments of a server that keeps nothing on the disk.
var forgetful = []string{"--save", "", "--appendonly", "no"}

var processRedis = sync.OnceValues(func() (string, error) {
	addr := os.Getenv(EnvRedis)
	if addr == "" {
		var err error
		if addr, _, err = startRedis(); err != nil {
			return "", err
		}
	}
	return addr, said("Redis", func() (string, error) { return redisVersion(addr) })
})

var processRedisCluster = sync.OnceValues(func() ([]string, error) {
	addrs := strings.Split(os.Getenv(EnvRedisCluster), ",")
	if addrs[0] == "" {
		// Long enough for a busy machine: a failover would take data of tests along.
		var err error
		if addrs, _, err = startRedisCluster(30 * time.Second); err != nil {
			return nil, err
		}
	}
	return addrs, said("Redis", func() (string, error) { return redisVersion(addrs[0]) })
})

// Redis returns the address of a Redis server that all tests of a process
// share: a test keeps to keys of its own.
func Redis(tb testing.TB) string {
	tb.Helper()
	addr, err := processRedis()
	if err != nil {
		missing(tb, "Redis", "install redis-server, start Docker, or set "+EnvRedis+" to the address of a server", err)
	}
	return addr
}

// StartRedis starts a Redis server with these arguments after the usual ones, by
// which it keeps nothing on the disk, and returns its address. It ends with the
// test. [EnvRedis] is not used.
func StartRedis(tb testing.TB, args ...string) string {
	tb.Helper()
	addr, process, err := startRedis(args...)
	if err != nil {
		missing(tb, "a Redis server of its own", "install redis-server", err)
	}
	tb.Cleanup(process.stop)
	return addr
}

// RedisCluster returns the addresses of a Redis Cluster of three masters with a
// replica each, which all tests of a process share.
func RedisCluster(tb testing.TB) []string {
	tb.Helper()
	addrs, err := processRedisCluster()
	if err != nil {
		missing(tb, "a Redis Cluster", "install redis-server, or set "+EnvRedisCluster+" to the addresses of nodes", err)
	}
	return addrs
}

// StartRedisCluster starts a Redis Cluster as [RedisCluster] has it, for a test
// that harms it: a master that is silent for 2 s is replaced. It ends with the
// test.
func StartRedisCluster(tb testing.TB) []string {
	tb.Helper()
	addrs, processes, err := startRedisCluster(2 * time.Second)
	if err != nil {
		missing(tb, "a Redis Cluster of its own", "install redis-server", err)
	}
	tb.Cleanup(func() { stopAll(processes) })
	return addrs
}

// StartRedisSentinel starts a Redis server with a replica and a Sentinel that
// watches them under the name of "main" and replaces a master that is silent for
// 1 s. It returns the addresses of the three, which end with the test.
func StartRedisSentinel(tb testing.TB) (sentinel, master, replica string) {
	tb.Helper()
	program, err := redisProgram()
	if err != nil {
		missing(tb, "Redis Sentinel", "install redis-server", fmt.Errorf("%w: %w", errUnavailable, err))
	}
	master = StartRedis(tb)
	host, port, _ := strings.Cut(master, ":")
	replica = StartRedis(tb, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	own, err := freePort()
	if err != nil {
		tb.Fatalf("testenv: %v", err)
	}
	// A Sentinel keeps what it learns in a file, which must be there.
	p, err := runRedis(own, []string{"/bin/sh", "-c", `: >sentinel.conf; exec "$0" sentinel.conf --sentinel --port "$1" --bind 127.0.0.1`, program, own})
	if err != nil {
		tb.Fatalf("testenv: start Redis Sentinel: %v", err)
	}
	tb.Cleanup(p.stop)
	sentinel = "127.0.0.1:" + own
	client := redis.NewSentinelClient(&redis.Options{Addr: sentinel, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	err = errors.Join(
		client.Monitor(tb.Context(), "main", host, port, "1").Err(),
		client.Set(tb.Context(), "main", "down-after-milliseconds", "1000").Err(),
		p.waitReady(func(ctx context.Context) error {
			replicas, err := client.Replicas(ctx, "main").Result()
			if err == nil && (len(replicas) != 1 || replicas[0]["master-link-status"] != "ok") {
				err = errors.New("the Sentinel has not found the replica")
			}
			return err
		}))
	if err != nil {
		tb.Fatalf("testenv: watch %s with Redis Sentinel: %v", master, err)
	}
	return sentinel, master, replica
}

func stopAll(processes []*process) {
	for _, p := range processes {
		p.stop()
	}
}

// startRedis starts a server from an installed program, else from Debian's
// package, else with Docker.
func startRedis(args ...string) (addr string, p *process, err error) {
	program, errProgram := redisProgram()
	if errProgram != nil {
		if errDocker := dockerUsable(); errDocker != nil {
			return "", nil, fmt.Errorf("%w: %w; %w", errUnavailable, errProgram, errDocker)
		}
	}
	// Between finding a free port and listening on it another program can take
	// the port: then the next one is tried.
	for range 3 {
		var port string
		if port, err = freePort(); err != nil {
			return "", nil, err
		}
		argv := []string{program, "--port", port, "--bind", "127.0.0.1"}
		if errProgram != nil {
			argv = []string{"docker", "run", "--rm", "-p", "127.0.0.1:" + port + ":6379", redisImage, "redis-server"}
		}
		if p, err = runRedis(port, append(append(argv, forgetful...), args...)); err == nil {
			return "127.0.0.1:" + port, p, nil
		}
	}
	return "", nil, err
}

// runRedis runs a server until it answers.
func runRedis(port string, argv []string) (*process, error) {
	dir, err := makeDir()
	if err != nil {
		return nil, err
	}
	p, err := supervise(dir, "KILL", argv)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port, ContextTimeoutEnabled: true})
	defer func() { _ = client.Close() }()
	return p, p.waitReady(func(ctx context.Context) error { return client.Ping(ctx).Err() })
}

// startRedisCluster starts six servers and joins them: three masters, each with
// a replica that has caught up. A master that is silent for the timeout is
// replaced.
func startRedisCluster(timeout time.Duration) (addrs []string, processes []*process, err error) {
	program, err := redisProgram()
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer func() {
		if err != nil {
			stopAll(processes)
		}
	}()
	for range 6 {
		port, err := freePort()
		if err != nil {
			return nil, processes, err
		}
		bus, err := freePort() // the default, 10,000 above the port, may be taken
		if err != nil {
			return nil, processes, err
		}
		p, err := runRedis(port, append([]string{program, "--port", port, "--bind", "127.0.0.1",
			"--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-config-file", "nodes.conf",
			"--cluster-node-timeout", strconv.FormatInt(timeout.Milliseconds(), 10),
			// A replica joins at once instead of after 5 s: a master that dies
			// before would take its slots with it.
			"--repl-diskless-sync-delay", "0"}, forgetful...))
		if err != nil {
			return nil, processes, err
		}
		processes = append(processes, p)
		addrs = append(addrs, "127.0.0.1:"+port)
	}
	create := append([]string{"--cluster", "create"}, addrs...)
	create = append(create, "--cluster-replicas", "1", "--cluster-yes")
	out, err := command(processes[0].dir, filepath.Join(filepath.Dir(program), "redis-cli"), create...).CombinedOutput()
	if err != nil {
		return nil, processes, fmt.Errorf("redis-cli --cluster create: %w\n%s", err, out)
	}
	for i, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
		err := processes[i].waitReady(func(ctx context.Context) error { return joined(ctx, client) })
		_ = client.Close()
		if err != nil {
			return nil, processes, err
		}
	}
	return addrs, processes, nil
}

// joined tells whether a node sees three masters with a replica each and, if it
// is a replica, has its master's data.
func joined(ctx context.Context, node *redis.Client) error {
	shards, err := node.ClusterShards(ctx).Result()
	if err != nil {
		return err
	}
	nodes := 0
	for _, s := range shards {
		nodes += len(s.Nodes)
	}
	if len(shards) != 3 || nodes != 6 {
		return errors.New("the node does not see the whole cluster")
	}
	state, err := node.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	link, err := node.Info(ctx, "replication").Result()
	switch {
	case err != nil:
		return err
	case !strings.Contains(state, "cluster_state:ok"):
		return errors.New("the cluster is not complete")
	case strings.Contains(link, "role:slave") && !strings.Contains(link, "master_link_status:up"):
		return errors.New("the replica has not caught up")
	case strings.Contains(link, "role:master") && !strings.Contains(link, "state=online"):
		return errors.New("the master has no replica")
	}
	return nil
}

func redisProgram() (string, error) {
	if program, err := exec.LookPath("redis-server"); err == nil {
		return program, nil
	}
	if err := install("redis-server"); err != nil {
		return "", fmt.Errorf("no redis-server found, and %w", err)
	}
	if program, err := exec.LookPath("redis-server"); err == nil {
		return program, nil
	}
	return "", errors.New("package redis-server is installed, but its program is not found")
}
