package main

import (
	"context"
	"log/slog"
	"net/url"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/redisstore"
)

// quiet drops what go-redis logs: whatever matters is an error as well.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func openRedis(ctx context.Context, u *url.URL) (opened, error) {
	own := *u
	q := own.Query()
	// What could be set better is for those who run servers, in their logs.
	opts := []redisstore.Option{redisstore.WithLogger(slog.New(slog.DiscardHandler))}
	if prefix := take(q, "prefix"); prefix != "" {
		opts = append(opts, redisstore.WithPrefix(prefix))
	}
	if tag := take(q, "hash_tag"); tag != "" {
		opts = append(opts, redisstore.WithHashTag(func(idempotency.Identity) string { return tag }))
	}
	client, err := newRedisClient(own, q)
	if err != nil {
		return opened{}, err
	}
	s, err := redisstore.New(ctx, client, opts...)
	return keep(s, err, func() { _ = client.Close() })
}

// take removes a parameter from q and returns its value.
func take(q url.Values, name string) string {
	defer q.Del(name)
	return q.Get(name)
}

// newRedisClient returns a client of what u names, with the settings of go-redis
// in q.
func newRedisClient(u url.URL, q url.Values) (redis.UniversalClient, error) {
	cluster, master := take(q, "cluster"), take(q, "sentinel")
	switch {
	case cluster != "" && cluster != "true" && cluster != "false":
		return nil, misuse("cluster=%s in the store's URL: use true or false", cluster)
	case cluster == "true" && master != "":
		return nil, misuse("the store's URL has both cluster and sentinel: use one")
	case cluster == "true":
		u.RawQuery = q.Encode()
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, wrongSetting(err)
		}
		o.ContextTimeoutEnabled = true
		return redis.NewClusterClient(o), nil
	case master != "":
		return newSentinelClient(u, q, master)
	}
	u.RawQuery = q.Encode()
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, wrongSetting(err)
	}
	o.ContextTimeoutEnabled = true
	return redis.NewClient(o), nil
}

func wrongSetting(err error) error { return misuse("the settings in the store's URL: %v", err) }

// newSentinelClient returns a client of the master that the sentinels of u know by
// a name. The user of u is the master's, where go-redis has the sentinels'.
func newSentinelClient(u url.URL, q url.Values, master string) (redis.UniversalClient, error) {
	user, password := take(q, "sentinel_username"), take(q, "sentinel_password")
	for _, name := range []string{"route_by_latency", "route_randomly", "replica_only"} {
		if q.Has(name) {
			return nil, misuse("the store's URL has the parameter %s: records are read from the master", name)
		}
	}
	q.Set("master_name", master)
	u.RawQuery = q.Encode()
	o, err := redis.ParseFailoverURL(u.String())
	if err != nil {
		return nil, wrongSetting(err)
	}
	o.Username, o.Password = o.SentinelUsername, o.SentinelPassword
	o.SentinelUsername, o.SentinelPassword = user, password
	o.ContextTimeoutEnabled = true
	if o.TLSConfig != nil {
		o.TLSConfig.ServerName = "" // each server is verified by its own name
	}
	return redis.NewFailoverClient(o), nil
}
