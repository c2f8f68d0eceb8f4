package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/heartbeat"
)

// How a record that is completed came to be, in the words of the script.
const (
	claimed   = "claimed"
	unclaimed = "new"
)

// completion is what is stored and applied in one step.
type completion struct {
	key, token, origin string
	fingerprint        []byte
	retention          time.Duration
	status             int
	header, body       []byte
	queued             queued
}

// arguments returns the keys and arguments of the script.
func (c *completion) arguments(token *counted) ([]string, []any) {
	keys := append([]string{c.key}, c.queued.keys...)
	retention := (c.retention + time.Millisecond - 1).Milliseconds()
	args := append(make([]any, 0, 7+len(c.queued.args)), token, c.origin, retention, c.fingerprint,
		c.status, c.header, c.body)
	return keys, append(args, c.queued.args...)
}

// counted is an argument that counts how often the client writes it: go-redis
// sends a command again by itself, and tells only of the last time.
type counted struct {
	text    string
	writes  atomic.Int64
	answers int64
}

// uncertain reports whether a command that has no answer may have been carried
// out.
func (c *counted) uncertain() bool { return c.writes.Load() > c.answers }

// MarshalBinary implements [encoding.BinaryMarshaler].
func (c *counted) MarshalBinary() ([]byte, error) {
	c.writes.Add(1)
	return []byte(c.text), nil
}

// resendPause is the longest pause before a completion is sent again.
const resendPause = 100 * time.Millisecond

// complete sends c until it is answered: its token makes a repetition harmless,
// and the answer to one tells what became of those before. It returns settled
// if the claim is over or may be, so that it must not be given up, or cannot be.
func (s *Store) complete(ctx context.Context, c completion) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.finishTimeout)
	defer cancel()
	token := &counted{text: c.token}
	keys, args := c.arguments(token)
	answer, missing, err := s.insist(ctx, completeScript, token, keys, args)
	switch {
	case err == nil:
		return true, c.judge(answer, missing, token.uncertain())
	case !mayPass(err):
		return s.settle(ctx, c, token.uncertain(), err)
	}
	return true, unanswered(token.uncertain(), err)
}

// insist sends a script until it is answered for good or ctx is over.
func (s *Store) insist(ctx context.Context, script *redis.Script, token *counted, keys []string, args []any) (answer []any, missing, err error) {
	for {
		answer, missing, err = s.send(ctx, script, token, keys, args)
		if err == nil || !mayPass(err) || errors.Is(err, redis.ErrClosed) {
			return answer, missing, err
		}
		pause := time.NewTimer(rand.N(resendPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return nil, nil, err
		}
	}
}

// judge reads the script's answer.
func (c *completion) judge(answer []any, missing error, uncertain bool) error {
	switch state, rest := split(answer); {
	case state == "done" && missing != nil:
		return unreplicated(missing)
	case state == "done":
		return nil
	case state == "lost" && uncertain:
		return recordGone(errors.New("no claim is there"))
	case state == "lost":
		return unavailable("the claim was lost while the handler ran; nothing was kept", heartbeat.ErrLost)
	case state == "failed" && len(rest) == 2:
		return &idempotency.CommitError{
			Err: fmt.Errorf("redisstore: the queued %s failed, and nothing is kept: %w", c.command(rest[0]), serverError(fmt.Sprint(rest[1]))),
		}
	}
	return errDamaged(fmt.Sprintf("the completion was answered %.64q", answer))
}

// settle finds out what a refused completion has left by giving the claim up:
// one that was sent before and may yet arrive finds it gone, and one that was
// carried out has left the answer.
func (s *Store) settle(ctx context.Context, c completion, uncertain bool, refusal error) (settled bool, err error) {
	state, err := abandonScript.Run(ctx, s.client, []string{c.key}, c.token).Text()
	answered := err == nil
	switch {
	case answered && state == "done" && s.cfg.replicas == 0:
		return true, nil
	case answered && state == "freed", !uncertain:
		return answered, notStored(refusal)
	case answered && state == "gone" && c.origin == claimed:
		return true, recordGone(refusal)
	}
	return true, outcomeUnknown(refusal)
}

// unanswered is what a completion without an answer means: one that was never
// sent has kept nothing.
func unanswered(uncertain bool, err error) error {
	if uncertain {
		return outcomeUnknown(err)
	}
	return notStored(err)
}

// command names the nth queued command, counted from 1.
func (c *completion) command(n any) string {
	if i, ok := n.(int64); ok && 1 <= i && i <= int64(len(c.queued.names)) {
		return c.queued.names[i-1]
	}
	return "command"
}

// send runs a script, and waits for replicas on the same connection where that
// is asked for: missing says why it is not known that enough of them have what it wrote.
func (s *Store) send(ctx context.Context, script *redis.Script, token *counted, keys []string, args []any) (answer []any, missing, err error) {
	run := func(eval scriptCall) (ran, wait *redis.Cmd) { return eval(ctx, s.client, keys, args...), nil }
	if s.cfg.replicas > 0 {
		node, err := s.master(ctx, keys[0])
		if err != nil {
			return nil, nil, err
		}
		run = func(eval scriptCall) (ran, wait *redis.Cmd) {
			pipe := node.Pipeline()
			ran = eval(ctx, pipe, keys, args...)
			wait = pipe.Do(ctx, "WAIT", s.cfg.replicas, s.cfg.replicaWait.Milliseconds())
			_, _ = pipe.Exec(ctx) // each command holds its own error
			return ran, wait
		}
	}
	ran, wait := run(script.EvalSha)
	if redis.HasErrorPrefix(ran.Err(), "NOSCRIPT") {
		token.answers++
		ran, wait = run(script.Eval)
	}
	if err := ran.Err(); err == nil || isReply(err) {
		token.answers++
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok && wait != nil && redis.HasErrorPrefix(ran.Err(), "MOVED") {
		cluster.ReloadState(ctx) // the client follows by itself only outside pipelines of a node
	}
	if answer, err = ran.Slice(); err != nil || wait == nil {
		return answer, nil, err
	}
	return answer, s.missing(wait), nil
}

// scriptCall runs a script by its hash or by its text.
type scriptCall = func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd
