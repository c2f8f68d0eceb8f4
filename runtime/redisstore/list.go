package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// scanCount is about how many keys a step of SCAN looks at.
const scanCount = 500

// List implements [idempotency.Lister]. It scans the keys of one master after
// another, 500 at a step, and of each record asks what it is and how long its
// answer, but not for the answer. Every key of the server is looked at, whatever
// its name. A record whose hash slot moves to another master meanwhile may be
// listed twice or not at all. An id is one lookup, unless [WithHashTag] is used.
//
// Other keys are left out, whatever they hold. So is a record whose scope, operation
// or key somebody has changed, since its name is of another one; a record that is
// damaged otherwise ends the list with an error that names the key.
//
// Claims have no time at which they were made, and those whose lease has passed
// are gone, as are answers whose retention is over.
func (s *Store) List(ctx context.Context, filter idempotency.Filter) iter.Seq2[idempotency.Entry, error] {
	return func(yield func(idempotency.Entry, error) bool) {
		if filter.ID != [16]byte{} && s.cfg.hashTag == nil {
			s.one(ctx, filter, yield)
			return
		}
		masters, err := s.masters(ctx)
		if err != nil {
			yield(idempotency.Entry{}, unlisted(err))
			return
		}
		for _, master := range masters {
			if !s.scan(ctx, master, filter, yield) {
				return
			}
		}
	}
}

// Stats implements [idempotency.Lister]. It lists all records to count them.
func (s *Store) Stats(ctx context.Context) (idempotency.Stats, error) {
	var stats idempotency.Stats
	for e, err := range s.List(ctx, idempotency.Filter{}) {
		if err != nil {
			return idempotency.Stats{}, err
		}
		stats.Add(e.Operation, e.Counts())
	}
	return stats, nil
}

func unlisted(err error) error { return unavailable("the records could not be listed", err) }

// masters returns a client of each server that has records.
func (s *Store) masters(ctx context.Context) ([]redis.Cmdable, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return []redis.Cmdable{s.client}, nil
	}
	var mu sync.Mutex
	var masters []redis.Cmdable
	err := cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		masters = append(masters, node)
		return nil
	})
	return masters, err
}

// one yields the entry of an id, from which the key's name follows.
func (s *Store) one(ctx context.Context, filter idempotency.Filter, yield func(idempotency.Entry, error) bool) {
	entries, err := s.entries(ctx, s.client, []string{s.untagged(filter.ID)})
	if err != nil {
		yield(idempotency.Entry{}, err)
		return
	}
	for _, e := range entries {
		if filter.Selects(e) {
			yield(e, nil)
		}
	}
}

// scan yields the entries of one server. It reports whether the caller wants more.
func (s *Store) scan(ctx context.Context, master redis.Cmdable, filter idempotency.Filter, yield func(idempotency.Entry, error) bool) bool {
	match := quotePattern(s.cfg.prefix) + "{*"
	if filter.ID != [16]byte{} {
		match += hex.EncodeToString(filter.ID[:]) + "*"
	}
	var seen recent
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		keys, next, err := s.page(ctx, master, cursor, match)
		if err != nil {
			yield(idempotency.Entry{}, unlisted(err))
			return false
		}
		entries, err := s.entries(ctx, master, keys)
		if err != nil {
			yield(idempotency.Entry{}, err)
			return false
		}
		for _, e := range entries {
			if filter.Selects(e) && seen.add(e.ID()) && !yield(e, nil) {
				return false
			}
		}
		cursor = next
	}
	return true
}

// page makes one step of SCAN.
func (s *Store) page(ctx context.Context, master redis.Cmdable, cursor uint64, match string) ([]string, uint64, error) {
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	return master.ScanType(ctx, cursor, match, scanCount, "hash").Result()
}

// entries reads what keys are, in one round trip.
func (s *Store) entries(ctx context.Context, master redis.Cmdable, keys []string) ([]idempotency.Entry, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.claimTimeout)
	defer cancel()
	run := func(eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) []*redis.Cmd {
		pipe := master.Pipeline()
		answers := make([]*redis.Cmd, len(keys))
		for i, key := range keys {
			answers[i] = eval(ctx, pipe, []string{key})
		}
		_, _ = pipe.Exec(ctx) // each command holds its own error
		return answers
	}
	answers := run(entryScript.EvalSha)
	if redis.HasErrorPrefix(answers[0].Err(), "NOSCRIPT") {
		answers = run(entryScript.Eval)
	}
	var entries []idempotency.Entry
	for i, answer := range answers {
		fields, err := answer.Slice()
		if isReply(err) { // the slot has moved, or the scripts were forgotten
			fields, err = entryScript.Run(ctx, s.client, []string{keys[i]}).Slice()
		}
		if err != nil {
			return nil, unlisted(err)
		}
		e, is, err := entryOf(keys[i], fields)
		if err != nil {
			return nil, err
		}
		if is {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// entryOf reads what the script answers for a key, unless that is none of a
// record: gone meanwhile, or of a transaction without a key.
func entryOf(key string, fields []any) (e idempotency.Entry, is bool, err error) {
	if len(fields) != 9 {
		return e, false, errDamaged(fmt.Sprintf("%s has %d fields", key, len(fields)))
	}
	var text [6]string
	for i := range text {
		text[i], _ = fields[i].(string)
	}
	length, _ := fields[6].(int64)
	ends, _ := fields[7].(int64)
	token, _ := fields[8].(string)
	e.Identity = idempotency.Identity{Scope: text[0], Operation: text[1], Key: text[2]}
	id := e.ID()
	if name := hex.EncodeToString(id[:]); !strings.HasSuffix(key, "{"+name+"}") && !strings.HasSuffix(key, "}:"+name) {
		return e, false, nil
	}
	if text[3] == "" {
		e.State, e.LeaseUntil, e.Version = idempotency.StateClaim, time.UnixMilli(ends).UTC(), version(kindClaim, token)
		return e, ends > 0, nil
	}
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], err = strconv.ParseInt(text[3+i], 10, 64); err != nil {
			return e, false, errDamaged(fmt.Sprintf("%s: %q is no number", key, text[3+i]))
		}
	}
	e.State, e.Status, e.Bytes = idempotency.StateAnswer, int(numbers[0]), length
	e.Version = version(kindAnswer, token)
	e.CreatedAt, e.ExpiresAt = time.UnixMilli(numbers[1]).UTC(), time.UnixMilli(numbers[2]).UTC()
	return e, true, nil
}

// quotePattern returns a pattern of SCAN that matches text alone.
func quotePattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}

// recent remembers the last ids that it was given, some tens of thousands. That
// is enough: SCAN gives a key again where the server's table of keys has shrunk
// since, and then soon, since the places of the table that become one are looked
// at one after another.
type recent struct{ young, old map[[16]byte]struct{} }

// generation is how many ids are forgotten at once.
const generation = 1 << 15

// add reports whether id is not among the last ones.
func (r *recent) add(id [16]byte) bool {
	_, young := r.young[id]
	_, old := r.old[id]
	if young || old {
		return false
	}
	if r.young == nil || len(r.young) == generation {
		r.young, r.old = make(map[[16]byte]struct{}), r.young
	}
	r.young[id] = struct{}{}
	return true
}
