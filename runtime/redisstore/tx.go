package redisstore

import (
	"bytes"
	"context"
	"encoding"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Tx takes the Redis writes of one run of work. They are applied after work has
// returned, in the same atomic step that stores its answer: all of them or,
// if one fails or the claim was lost, none. What work reads, it reads through a
// client of its own; it does not see its own queued writes.
//
// A Tx is safe for concurrent use. It takes nothing once work has returned.
type Tx struct {
	commands table
	prefix   string // of the store's own keys
	cluster  bool
	sealed   *redis.Client // makes pipelines, and sends nothing

	mu       sync.Mutex
	tag      string // the hash tag of the record
	chosen   bool   // tag decides which slot commands may use; else the first one's key does
	returned bool
	err      error // why nothing of this run may be applied
	queued   queued
}

// queued are commands in the form that the script takes.
type queued struct {
	names []string // of the commands
	keys  []string // of all commands, in order
	args  []any    // for each command how many keys and arguments it has, and the arguments
}

// Slot returns the hash tag, without braces, of the slot in which the answer is
// stored. On a Redis Cluster every queued command must keep to that slot; see
// [WithHashTag] for choosing it. Where there is no key (see [Store.Transact])
// nothing is stored, and the first queued command decides instead.
func (t *Tx) Slot() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tag
}

// Key returns a key of this name in the slot that [Tx.Slot] names:
// "{slot}:name". With [WithHashTag] that is the same key for all requests with
// the same hash tag. Without it the slot is the record's own, and each request
// gets another key: on a single server give data that requests share a plain
// name, such as "balance:4711", instead.
func (t *Tx) Key(name string) string { return "{" + t.Slot() + "}:" + name }

// Queue takes the commands that fn gives to p, to be applied with the answer.
//
//	err := tx.Queue(func(p redis.Pipeliner) error {
//		p.Set(ctx, tx.Key("payment"), id, 0)
//		p.IncrBy(ctx, "{"+account+"}:balance", -amount)
//		return nil
//	})
//
// It returns the error of fn, or says which command cannot be taken:
//   - one that does not write, since its result would come too late;
//   - one that Redis refuses in scripts, that blocks, that has no keys, or whose
//     keys do not stand at fixed places (such as ZUNIONSTORE);
//   - MOVE and COPY, since what they do to another database cannot be undone;
//   - on a Redis Cluster, one with a key in another slot than [Tx.Slot];
//   - one that touches the store's own keys, has more than 4,096 arguments, or
//     one that the client could not send.
//
// After such an error nothing of this run is applied, even if work goes on and
// returns an answer. After an error of fn the commands queued before stay.
//
// The commands have no results, neither then nor later. p.Exec, p.Pipelined and
// p.TxPipelined are refused; p.Discard drops what fn has given so far. The keys
// of all commands but the last are copied before anything is written, so a
// write to a big key comes last.
func (t *Tx) Queue(fn func(p redis.Pipeliner) error) error {
	p := &pipeliner{Pipeliner: t.sealed.Pipeline()}
	if err := fn(p); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.returned {
		return errReturned
	}
	err := p.err
	for _, cmd := range p.Cmds() {
		if err == nil {
			err = t.take(cmd)
		}
	}
	t.err = errors.Join(t.err, err)
	return err
}

// maxArguments keeps a command within what a script can pass on.
const maxArguments = 4096

// take queues one command.
func (t *Tx) take(cmd redis.Cmder) error {
	name := strings.ToUpper(cmd.FullName())
	args := cmd.Args()
	switch {
	case cmd.Err() != nil:
		return fmt.Errorf("redisstore: %s cannot be queued: %w", name, cmd.Err())
	case len(args) > maxArguments:
		return fmt.Errorf("redisstore: %s has %d arguments: a queued command has at most %d; use several", name, len(args), maxArguments)
	}
	keys, err := t.commands.keys(cmd)
	if err != nil {
		return fmt.Errorf("redisstore: %s cannot be queued: %w", name, err)
	}
	for _, key := range keys {
		if strings.HasPrefix(key, t.prefix) {
			return fmt.Errorf("redisstore: %s %q cannot be queued: keys that begin with %q are the store's", name, key, t.prefix)
		}
		if err := t.keep(key); err != nil {
			return fmt.Errorf("redisstore: %s %q cannot be queued: %w", name, key, err)
		}
	}
	sent := make([]any, len(args))
	for i, arg := range args {
		if sent[i], err = sendable(arg); err != nil {
			return fmt.Errorf("redisstore: %s cannot be queued: argument %d: %w", name, i, err)
		}
	}
	q := &t.queued
	q.names = append(q.names, name)
	q.keys = append(q.keys, keys...)
	q.args = append(append(q.args, len(keys), len(args)), sent...)
	return nil
}

// sendable returns arg as it is now, in a form that the client can send.
func sendable(arg any) (any, error) {
	switch v := arg.(type) {
	case nil, string, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64,
		float32, float64, time.Time, *time.Time, time.Duration:
		return v, nil
	case []byte:
		return bytes.Clone(v), nil
	case net.IP:
		return []byte(v), nil
	case encoding.BinaryMarshaler:
		return v.MarshalBinary()
	}
	return nil, fmt.Errorf("a %T cannot be sent: use a string, a number or an encoding.BinaryMarshaler", arg)
}

// keep makes sure that key lies in the transaction's slot.
func (t *Tx) keep(key string) error {
	switch tag := hashTag(key); {
	case !t.cluster || tag == t.tag || slot(tag) == slot(t.tag):
		return nil
	case t.chosen:
		return fmt.Errorf("on a Redis Cluster its key must lie in the hash slot of the record, that of {%s}: choose that slot by the data's, with WithHashTag", t.tag)
	case strings.Contains(tag, "}"):
		return errors.New("on a Redis Cluster a key with a brace needs a hash tag")
	default:
		t.tag, t.chosen = tag, true
		return nil
	}
}

// finish ends the use of t. It says why nothing of it may be applied.
func (t *Tx) finish() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returned = true
	return t.err
}

// table says what commands do, by their names in lower case.
type table map[string]*redis.CommandInfo

// keys returns the keys of a command, or why it cannot be queued.
func (t table) keys(cmd redis.Cmder) ([]string, error) {
	info := t[cmd.Name()]
	switch {
	case info == nil:
		return nil, errors.New("the server does not know it")
	case cmd.Name() == "move", cmd.Name() == "copy":
		return nil, errors.New("it can write to another database, where it could not be undone")
	}
	writes := false
	for _, flag := range info.Flags {
		switch flag {
		case "write":
			writes = true
		case "noscript", "blocking":
			return nil, errors.New("it may not run in a script")
		case "movablekeys":
			return nil, errors.New("its keys do not stand at fixed places")
		}
	}
	first, last, step := int(info.FirstKeyPos), int(info.LastKeyPos), int(info.StepCount)
	switch {
	case !writes:
		return nil, errors.New("it does not write: queued commands have no results; read through the client, before")
	case first <= 0 || step <= 0:
		return nil, errors.New("it has no keys, so that it cannot be undone")
	}
	args := cmd.Args()
	if last < 0 {
		last += len(args)
	}
	if last < first || last >= len(args) {
		return nil, errors.New("arguments are missing")
	}
	var keys []string
	for i := first; i <= last; i += step {
		switch key := args[i].(type) {
		case string:
			keys = append(keys, key)
		case []byte:
			keys = append(keys, string(key))
		default:
			return nil, fmt.Errorf("its key is a %T: use a string", key)
		}
	}
	return keys, nil
}

// pipeliner collects commands and sends none.
type pipeliner struct {
	redis.Pipeliner

	err error
}

func (p *pipeliner) Exec(context.Context) ([]redis.Cmder, error) {
	p.err = errExec
	return nil, errExec
}

func (p *pipeliner) Pipeline() redis.Pipeliner   { return p }
func (p *pipeliner) TxPipeline() redis.Pipeliner { return p }

func (p *pipeliner) Pipelined(ctx context.Context, _ func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	return p.Exec(ctx)
}

func (p *pipeliner) TxPipelined(ctx context.Context, _ func(redis.Pipeliner) error) ([]redis.Cmder, error) {
	return p.Exec(ctx)
}
