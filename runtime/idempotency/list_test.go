package idempotency_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// The end of a retention counts before that of a lease, and a moment that is
// the end is after it.
func TestStateOf(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	before, after := now.Add(-time.Second), now.Add(time.Second)
	for _, c := range []struct {
		leaseUntil, expiresAt time.Time
		want                  idempotency.State
	}{
		{time.Time{}, after, idempotency.StateAnswer},
		{after, after, idempotency.StateClaim},
		{now, after, idempotency.StatePassed},
		{before, after, idempotency.StatePassed},
		{time.Time{}, now, idempotency.StateExpired},
		{after, before, idempotency.StateExpired},
	} {
		if got := idempotency.StateOf(now, c.leaseUntil, c.expiresAt); got != c.want {
			t.Errorf("lease until %v, expires at %v: %v, want %v", c.leaseUntil, c.expiresAt, got, c.want)
		}
	}
}

func TestStateAsText(t *testing.T) {
	t.Parallel()
	for s := range idempotency.StateExpired + 1 {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back idempotency.State
		if err := json.Unmarshal(text, &back); err != nil || back != s {
			t.Errorf("%s became %v, error %v", text, back, err)
		}
	}
	var s idempotency.State
	if err := s.UnmarshalText([]byte("stuck")); err == nil {
		t.Error("a state that there is not was taken")
	}
	if got := idempotency.State(9).String(); got != "State(9)" {
		t.Errorf("a number that is no state is %q", got)
	}
}

func TestStatsAdd(t *testing.T) {
	t.Parallel()
	early, late := time.Unix(1000, 0), time.Unix(2000, 0)
	var stats idempotency.Stats
	for _, e := range []idempotency.Entry{
		{Identity: idempotency.Identity{Operation: "a"}, State: idempotency.StateAnswer, Bytes: 10, CreatedAt: late},
		{Identity: idempotency.Identity{Operation: "a"}, State: idempotency.StateClaim}, // of a store that keeps no time of claims
		{Identity: idempotency.Identity{Operation: "b"}, State: idempotency.StateExpired, Bytes: 5, CreatedAt: early},
		{Identity: idempotency.Identity{Operation: "b"}, State: idempotency.StatePassed, CreatedAt: late},
	} {
		stats.Add(e.Operation, e.Counts())
	}
	all := idempotency.Counts{Answers: 1, Claims: 1, Passed: 1, Expired: 1, Bytes: 15, Oldest: early, Newest: late}
	if stats.Counts != all {
		t.Errorf("all: %+v, want %+v", stats.Counts, all)
	}
	if got, want := stats.Operations["a"], (idempotency.Counts{Answers: 1, Claims: 1, Bytes: 10, Oldest: late, Newest: late}); got != want {
		t.Errorf("a: %+v, want %+v", got, want)
	}
}
