package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// startTimeout bounds what New does.
const startTimeout = 15 * time.Second

// minVersion is the oldest major version of Redis whose scripts can check
// permissions and times to live.
const minVersion = 7

// New returns a store on client: a *redis.Client, also one that
// redis.NewFailoverClient has made, or a *redis.ClusterClient. It verifies what
// the guarantee needs, on every master, and returns an error that says what to
// do where it is not so:
//   - the client's ContextTimeoutEnabled is set, so that deadlines hold;
//   - the server is Redis 7.0 or later, or one compatible with it, and no replica;
//   - maxmemory-policy is noeviction, since a server that evicts forgets keys
//     whose requests were executed; where the policy is hidden, New warns (see
//     [WithLogger]);
//   - a cluster is used through a *redis.ClusterClient;
//   - the user may run the store's commands: New claims a key of its own and
//     gives it up.
//
// A *redis.Ring is refused: it sends keys to other servers while one is down.
func New(ctx context.Context, client redis.UniversalClient, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	s := &Store{client: client, cfg: cfg, sealed: redis.NewClient(&redis.Options{Dialer: dialNothing, MaxRetries: -1})}
	if err := checkClient(client); err != nil {
		return nil, err
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return s.verify(ctx, node) })
	} else {
		err = s.verify(ctx, client)
	}
	if err != nil {
		return nil, err
	}
	if s.commands, err = client.Command(ctx).Result(); err != nil {
		return nil, fmt.Errorf("redisstore: COMMAND, which says where commands have their keys: %w", err)
	}
	return s, s.probe(ctx)
}

// dialNothing keeps the client that makes pipelines for [Tx.Queue] from ever
// connecting.
func dialNothing(context.Context, string, string) (net.Conn, error) { return nil, errExec }

// checkClient refuses clients with which the guarantee does not hold.
func checkClient(client redis.UniversalClient) error {
	obeys := true
	switch c := client.(type) {
	case *redis.Ring:
		return errors.New("redisstore: a redis.Ring sends keys to other servers while one is down, where their records are not: use a Redis Cluster")
	case *redis.Client:
		obeys = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		obeys = c.Options().ContextTimeoutEnabled
	}
	if !obeys {
		return errors.New("redisstore: the client does not obey deadlines: set ContextTimeoutEnabled in its options")
	}
	return nil
}

// informer is a client of one server.
type informer interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
	ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
}

// verify examines one server. Several may be examined at the same time.
func (s *Store) verify(ctx context.Context, server informer) error {
	text, err := server.Info(ctx).Result()
	if err != nil {
		return fmt.Errorf("redisstore: INFO: %w", err)
	}
	info := parseInfo(text)
	name := "the server at port " + info["tcp_port"]
	major, _, _ := strings.Cut(info["redis_version"], ".")
	if n, err := strconv.Atoi(major); err != nil || n < minVersion {
		return fmt.Errorf("redisstore: %s says that it is version %q of Redis: %d.0 or later is needed", name, info["redis_version"], minVersion)
	}
	if info["role"] == "slave" {
		return fmt.Errorf("redisstore: %s is a replica: connect to its master", name)
	}
	if info["cluster_enabled"] == "1" {
		if _, single := s.client.(*redis.Client); single {
			return fmt.Errorf("redisstore: %s is a node of a Redis Cluster: use redis.NewClusterClient", name)
		}
		s.cluster.Store(true)
	}
	policy := info["maxmemory_policy"]
	if policy == "" {
		policy = server.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]
	}
	switch policy {
	case "noeviction":
	case "":
		s.cfg.logger.WarnContext(ctx, "redisstore: the server hides its maxmemory-policy; make sure that it is noeviction, since one that evicts lets executed requests run again",
			slog.String("port", info["tcp_port"]))
	default:
		return fmt.Errorf("redisstore: %s evicts keys when memory is full (maxmemory-policy %s), and a request whose record is gone runs again: "+
			"set maxmemory-policy noeviction, or use a server of its own for the records", name, policy)
	}
	return nil
}

// parseInfo reads the lines name:value of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}

// probe runs the scripts that every request needs, on a key of its own.
func (s *Store) probe(ctx context.Context) error {
	a := &attempt{Store: s, token: newToken()}
	a.tag = a.token
	a.key = s.cfg.prefix + "{" + a.tag + "}:probe"
	if s.cfg.replicas > 0 {
		if _, err := s.master(ctx, a.key); err != nil {
			return err
		}
	}
	if _, _, err := a.claim(ctx, idempotency.Request{}); err != nil {
		return fmt.Errorf("redisstore: claim a key to see whether that is allowed (the user needs EVALSHA and EVAL, and in scripts HMGET, HSET, PEXPIRE, DEL and TIME): %w", errors.Unwrap(err))
	}
	if err := abandonScript.Run(ctx, s.client, []string{a.key}, a.token).Err(); err != nil {
		return fmt.Errorf("redisstore: give a claim up to see whether that is allowed: %w", err)
	}
	return nil
}
