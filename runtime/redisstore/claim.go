package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// attempt is one Execute: a claim and what becomes of it.
type attempt struct {
	*Store
	tag   string // the hash tag of the record's key
	key   string // of the record
	token string // says that a claim is this attempt's, and no other's
}

// newToken returns 128 random bits, so that no two attempts share one, not even
// in the same process.
func newToken() string { return rand.Text() }

// attempt begins an attempt at id.
func (s *Store) attempt(id idempotency.Identity) (*attempt, error) {
	tag, key, err := s.place(id)
	if err != nil {
		return nil, err
	}
	return &attempt{Store: s, tag: tag, key: key, token: newToken()}, nil
}

// place returns the hash tag and the key of the record of id. Nothing else
// derives them, but for [Store.untagged].
func (s *Store) place(id idempotency.Identity) (tag, key string, err error) {
	sum := id.ID()
	name := hex.EncodeToString(sum[:])
	if s.cfg.hashTag == nil {
		return name, s.untagged(sum), nil
	}
	tag = s.cfg.hashTag(id)
	if tag == "" || strings.Contains(tag, "}") {
		return "", "", fmt.Errorf("redisstore: %s: the function given to WithHashTag returned %.64q: a hash tag is not empty and has no closing brace", id.Operation, tag)
	}
	return tag, s.cfg.prefix + "{" + tag + "}:" + name, nil
}

// untagged returns the key of a record whose hash tag is its id.
func (s *Store) untagged(id [16]byte) string {
	return s.cfg.prefix + "{" + hex.EncodeToString(id[:]) + "}"
}

// claim claims the record in one round trip and returns the server's time; or
// it returns the record that is there. It is not cancelled with ctx: an answer
// that is on its way is better known than not.
func (a *attempt) claim(ctx context.Context, req idempotency.Request) (*record, time.Time, error) {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.claimTimeout)
	defer cancel()
	answer, err := claimScript.Run(within, a.client, []string{a.key},
		a.token, a.cfg.lease.Milliseconds(), req.Scope, req.Operation, req.Key).Slice()
	if err != nil {
		// It may have been carried out: what is answered is the last time that the
		// client has sent it. Without this the key would be in flight for a
		// lease, and nobody at work.
		go a.abandon(within)
		return nil, time.Time{}, unavailable("the key could not be claimed; the handler did not run", err)
	}
	switch state, rest := split(answer); {
	case state == "record":
		rec, err := decode(rest)
		return rec, time.Time{}, err
	case state == "held":
		return nil, time.Time{}, idempotency.ErrInFlight
	case state == "claimed" && len(rest) == 1:
		if ms, ok := rest[0].(int64); ok {
			return nil, time.UnixMilli(ms), nil
		}
	}
	return nil, time.Time{}, errDamaged(fmt.Sprintf("the claim was answered %.64q", answer))
}

// abandon gives the claim up, so that the key is free. Where that fails it is
// free after the lease.
func (a *attempt) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.finishTimeout)
	defer cancel()
	_ = abandonScript.Run(ctx, a.client, []string{a.key}, a.token).Err()
}

// split returns the word that begins a script's answer, and what follows.
func split(answer []any) (state string, rest []any) {
	if len(answer) == 0 {
		return "", nil
	}
	state, _ = answer[0].(string)
	return state, answer[1:]
}
