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

// repairSlots is what to do about hash slots that nobody serves.
const repairSlots = "give them to masters (redis-cli --cluster fix), or start the masters that are down"

// New returns a store on client: a *redis.Client, also one that
// redis.NewFailoverClient has made, or a *redis.ClusterClient. It verifies what
// the guarantee needs, on every master, and returns an error that says what to
// do where it is not so:
//   - a server answers, and takes the client's credentials;
//   - the client's ContextTimeoutEnabled is set, so that deadlines hold;
//   - the server is Redis 7.0 or later, or one compatible with it, and neither a
//     replica nor a Sentinel;
//   - maxmemory-policy is noeviction, since a server that evicts forgets keys
//     whose requests were executed; where the policy is hidden, or the server
//     writes no append-only file, New warns (see [WithLogger]);
//   - a cluster is used through a *redis.ClusterClient, and every hash slot is
//     served;
//   - each master has the replicas that [WithReplicas] waits for, now;
//   - the user may run the store's commands: New claims a key of its own and
//     gives it up. On a cluster that is one hash slot, chosen at random: whether
//     the other masters take writes, New does not find out.
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
	if err := s.checkClient(); err != nil {
		return nil, err
	}
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return s.verify(ctx, node) })
		if err != nil {
			err = s.unreachable(err)
		}
	} else {
		err = s.verify(ctx, client)
	}
	if err != nil {
		return nil, err
	}
	if s.commands, err = client.Command(ctx).Result(); err != nil {
		return nil, s.unreachable(err)
	}
	return s, s.probe(ctx)
}

// unreachable says what to do about a client that gets no answer, or none that
// helps.
func (s *Store) unreachable(err error) error {
	var own *startError
	switch {
	case errors.As(err, &own):
		return err
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
		return refusef("the server does not take the client's user: set Username and Password in its options: %w", err)
	case redis.HasErrorPrefix(err, "NOPERM"):
		return refusef("the client's user lacks rights; this gives them, and what handlers write needs its own: redis-cli %s: %w", s.grant(), err)
	case redis.HasErrorPrefix(err, "This instance has cluster support disabled"):
		return refusef("the server is no node of a Redis Cluster: use redis.NewClient, or redis.NewFailoverClient: %w", err)
	case redis.HasErrorPrefix(err, "CLUSTERDOWN"):
		return refusef("the cluster does not serve all of its %d hash slots: %s: %w", slots, repairSlots, err)
	case isReply(err):
		return refusef("the server refuses the client: %w", err)
	}
	return refusef("no server answers: check the addresses in the client's options, and its TLSConfig: %w", err)
}

// grant is the command that gives a user the rights that the store needs.
func (s *Store) grant() string {
	rights := "+info +command +eval +evalsha +time +hmget +hset +hstrlen +pexpire +pexpiretime +del +dump +restore"
	if !isSingle(s.client) {
		rights += " +cluster +readonly"
	}
	if s.cfg.replicas > 0 {
		rights += " +wait"
	}
	return "ACL SETUSER app '~" + s.cfg.prefix + "*' " + rights
}

// startError is an error that says what to do.
type startError struct{ error }

func (e *startError) Unwrap() error { return e.error }

func refusef(format string, args ...any) error {
	return &startError{fmt.Errorf("redisstore: "+format, args...)}
}

// dialNothing keeps the client that makes pipelines for [Tx.Queue] from ever
// connecting.
func dialNothing(context.Context, string, string) (net.Conn, error) { return nil, errExec }

// checkClient refuses clients with which the guarantee does not hold.
func (s *Store) checkClient() error {
	obeys, readTimeout := true, time.Duration(0)
	switch c := s.client.(type) {
	case *redis.Ring:
		return refusef("a redis.Ring sends keys to other servers while one is down, where their records are not: use a Redis Cluster")
	case *redis.Client:
		obeys, readTimeout = c.Options().ContextTimeoutEnabled, c.Options().ReadTimeout
	case *redis.ClusterClient:
		obeys, readTimeout = c.Options().ContextTimeoutEnabled, c.Options().ReadTimeout
	}
	switch {
	case !obeys:
		return refusef("the client does not obey deadlines: set ContextTimeoutEnabled: true in its options")
	case readTimeout > 0 && s.cfg.replicaWait >= readTimeout:
		return refusef("WithReplicas waits for %v, and the client for no answer longer than %v: set a longer ReadTimeout in its options", s.cfg.replicaWait, readTimeout)
	}
	return nil
}

// behindSentinel is what go-redis has in place of the address in clients that
// redis.NewFailoverClient has made.
const behindSentinel = "FailoverClient"

// server is a client of one server.
type server interface {
	Info(ctx context.Context, sections ...string) *redis.StringCmd
	ClusterInfo(ctx context.Context) *redis.StringCmd
	ConfigGet(ctx context.Context, parameter string) *redis.MapStringStringCmd
}

// verify examines one server. Several may be examined at the same time.
func (s *Store) verify(ctx context.Context, client server) error {
	text, err := client.Info(ctx).Result()
	if err != nil {
		return s.unreachable(err)
	}
	info := parseInfo(text)
	at := "port " + info["tcp_port"]
	if node, ok := client.(*redis.Client); ok && node.Options().Addr != behindSentinel {
		at = node.Options().Addr
	}
	name := "the server at " + at
	major, _, _ := strings.Cut(info["redis_version"], ".")
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	switch n, err := strconv.Atoi(major); {
	case info["redis_mode"] == "sentinel":
		return refusef("%s is a Sentinel: use redis.NewFailoverClient", name)
	case err != nil || n < minVersion:
		return refusef("%s says that it is version %q of Redis: %d.0 or later is needed", name, info["redis_version"], minVersion)
	case info["cluster_enabled"] == "1" && isSingle(s.client):
		return refusef("%s is a node of a Redis Cluster: use redis.NewClusterClient", name)
	case info["role"] == "slave":
		return refusef("%s is a replica, which takes no writes: connect to its master", name)
	case replicas < s.cfg.replicas:
		return refusef("%s has %d of the %d replicas that WithReplicas waits for, and no answer would be acknowledged: attach replicas to it (REPLICAOF, or CLUSTER REPLICATE), or wait for fewer",
			name, replicas, s.cfg.replicas)
	}
	if info["cluster_enabled"] == "1" {
		if err := s.verifyCluster(ctx, client, name); err != nil {
			return err
		}
	}
	policy := info["maxmemory_policy"]
	if policy == "" {
		policy = client.ConfigGet(ctx, "maxmemory-policy").Val()["maxmemory-policy"]
	}
	switch policy {
	case "noeviction":
	case "":
		s.cfg.logger.WarnContext(ctx, "redisstore: the server hides its maxmemory-policy; make sure that it is noeviction, since one that evicts lets executed requests run again",
			slog.String("server", at))
	default:
		return refusef("%s evicts keys when memory is full (maxmemory-policy %s), and a request whose record is gone runs again: "+
			"set maxmemory-policy noeviction (now: redis-cli CONFIG SET maxmemory-policy noeviction; and in its redis.conf, for the next start), or use a server of its own for the records; "+
			"idemctl schema -store redis prints the lines of redis.conf", name, policy)
	}
	if info["aof_enabled"] == "0" {
		s.cfg.logger.WarnContext(ctx, "redisstore: a server writes no append-only file, and a restart lets executed requests run again: "+
			"redis-cli CONFIG SET appendonly yes, and in its redis.conf, for the next start, the lines that idemctl schema -store redis prints",
			slog.String("server", at))
	}
	return nil
}

func isSingle(client redis.UniversalClient) bool {
	_, single := client.(*redis.Client)
	return single
}

// verifyCluster examines a node of a cluster.
func (s *Store) verifyCluster(ctx context.Context, client server, name string) error {
	s.cluster.Store(true)
	text, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return fmt.Errorf("redisstore: CLUSTER INFO: %w", err)
	}
	info := parseInfo(text)
	if served := info["cluster_slots_ok"]; served != strconv.Itoa(slots) {
		return refusef("%s knows masters for %s of the %d hash slots of the cluster, and requests in the others would fail: %s", name, served, slots, repairSlots)
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
		node, err := s.master(ctx, a.key)
		if err != nil {
			return err
		}
		if err := node.Do(ctx, "WAIT", 0, 1).Err(); err != nil { // whether it is allowed
			return s.unreachable(err)
		}
	}
	if _, _, err := a.claim(ctx, idempotency.Request{}); err != nil {
		cause := errors.Unwrap(err)
		if !isReply(cause) || redis.HasErrorPrefix(cause, "CLUSTERDOWN") {
			return s.unreachable(cause)
		}
		return refusef("the server refuses to claim a key; if the client's user lacks rights, this gives them, and what handlers write needs its own: redis-cli %s: %w", s.grant(), cause)
	}
	if err := abandonScript.Run(ctx, s.client, []string{a.key}, a.token).Err(); err != nil {
		return fmt.Errorf("redisstore: give a claim up to see whether that is allowed: %w", err)
	}
	return nil
}
