package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"
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
func (c *completion) arguments() ([]string, []any) {
	keys := append([]string{c.key}, c.queued.keys...)
	retention := (c.retention + time.Millisecond - 1).Milliseconds()
	args := append(make([]any, 0, 7+len(c.queued.args)), c.token, c.origin, retention, c.fingerprint,
		c.status, c.header, c.body)
	return keys, append(args, c.queued.args...)
}

// resendPause is the longest pause before a completion is sent again.
const resendPause = 100 * time.Millisecond

// complete sends c until it is answered: its token makes a repetition harmless,
// and the answer to one tells what became of those before. It returns settled
// if the claim is over or may be, so that it must not be given up.
func (s *Store) complete(ctx context.Context, c completion) (settled bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.finishTimeout)
	defer cancel()
	keys, args := c.arguments()
	uncertain := false // one that was not answered may have been carried out
	for {
		answer, replicas, err := s.send(ctx, keys, args)
		switch {
		case err == nil:
			return c.judge(answer, replicas, s.cfg.replicas)
		case errors.Is(err, redis.ErrClosed): // perhaps when the client was sending it again
			return true, outcomeUnknown(err)
		case mayPass(err):
			uncertain = uncertain || !isReply(err)
		case uncertain:
			return true, outcomeUnknown(err)
		default:
			return false, unavailable("the answer could not be stored; nothing was kept", err)
		}
		pause := time.NewTimer(rand.N(resendPause))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return true, outcomeUnknown(err)
		}
	}
}

// judge reads the script's answer.
func (c *completion) judge(answer []any, replicas, wanted int) (settled bool, err error) {
	switch state, rest := split(answer); {
	case state == "done" && replicas < wanted:
		return true, outcomeUnknown(fmt.Errorf("redisstore: %d of %d replicas have received the answer", replicas, wanted))
	case state == "done":
		return true, nil
	case state == "lost":
		return true, unavailable("the claim was lost while the handler ran; nothing was kept", errLeaseLost)
	case state == "failed" && len(rest) == 2:
		return true, fmt.Errorf("redisstore: the queued %s failed, and nothing is kept: %w", c.command(rest[0]), serverError(fmt.Sprint(rest[1])))
	}
	return true, errDamaged(fmt.Sprintf("the completion was answered %.64q", answer))
}

// command names the nth queued command, counted from 1.
func (c *completion) command(n any) string {
	if i, ok := n.(int64); ok && 1 <= i && i <= int64(len(c.queued.names)) {
		return c.queued.names[i-1]
	}
	return "command"
}

// send runs the script, and waits for replicas on the same connection where
// that is asked for.
func (s *Store) send(ctx context.Context, keys []string, args []any) (answer []any, replicas int, err error) {
	if s.cfg.replicas == 0 {
		answer, err = completeScript.Run(ctx, s.client, keys, args...).Slice()
		return answer, 0, err
	}
	node, err := s.master(ctx, keys[0])
	if err != nil {
		return nil, 0, err
	}
	var script, wait *redis.Cmd
	run := func(eval func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd) {
		pipe := node.Pipeline()
		script = eval(ctx, pipe, keys, args...)
		wait = pipe.Do(ctx, "WAIT", s.cfg.replicas, s.cfg.replicaWait.Milliseconds())
		_, _ = pipe.Exec(ctx) // each command holds its own error
	}
	if run(completeScript.EvalSha); redis.HasErrorPrefix(script.Err(), "NOSCRIPT") {
		run(completeScript.Eval)
	}
	if cluster, ok := s.client.(*redis.ClusterClient); ok && redis.HasErrorPrefix(script.Err(), "MOVED") {
		cluster.ReloadState(ctx) // the client follows by itself only outside pipelines of a node
	}
	if answer, err = script.Slice(); err != nil {
		return nil, 0, err
	}
	replicas, _ = wait.Int() // none, where WAIT has failed
	return answer, replicas, nil
}

// master returns the client of the node that owns key.
func (s *Store) master(ctx context.Context, key string) (*redis.Client, error) {
	switch client := s.client.(type) {
	case *redis.ClusterClient:
		return client.MasterForKey(ctx, key)
	case *redis.Client:
		return client, nil
	}
	return nil, fmt.Errorf("redisstore: WithReplicas needs a *redis.Client or a *redis.ClusterClient, not a %T", s.client)
}
