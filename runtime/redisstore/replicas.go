package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

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

// missing says what WAIT has found to be missing, or why it has failed.
func (s *Store) missing(wait *redis.Cmd) error {
	replicas, err := wait.Int()
	switch {
	case err != nil:
		return fmt.Errorf("redisstore: WAIT: %w", err)
	case replicas < s.cfg.replicas:
		return fmt.Errorf("redisstore: %d of %d replicas have received the answer", replicas, s.cfg.replicas)
	}
	return nil
}

// confirm waits for the replicas that are to have a stored answer before it is
// replayed. The attempt that stored it may have been told that too few had it, and
// what that client gets now it believes. It returns [errGone] where the answer is no
// longer there.
func (s *Store) confirm(ctx context.Context, key string, r *record) error {
	if s.cfg.replicas == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.claimTimeout)
	defer cancel()
	answer, missing, err := s.insist(ctx, confirmScript, &counted{}, []string{key}, []any{r.token})
	switch state, _ := split(answer); {
	case err != nil:
		return unreplicated(err)
	case state != "done":
		return errGone
	case missing != nil:
		return unreplicated(missing)
	}
	return nil
}
