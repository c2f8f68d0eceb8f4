package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/idemgen/idemgen/runtime/internal/testenv"
)

// Every script in every state of a record: what it answers, whose the record is
// then, and that a time to live is changed by those alone that may. A command
// that comes late, or twice, does no harm.
//
// Covers CON-10, CRA-08, STO-05.
func TestScriptsInEveryState(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client := redis.NewClient(&redis.Options{Addr: testenv.Redis(t)})
	t.Cleanup(func() { _ = client.Close() })

	const lease, retention, earlier = time.Minute, time.Hour, 10 * time.Second
	expires := time.Now().Add(earlier).UnixMilli()
	states := map[string]func(p redis.Pipeliner, key string){
		"none":    func(redis.Pipeliner, string) {},
		"claimed": func(p redis.Pipeliner, key string) { p.HSet(ctx, key, "token", "mine", "scope", "s") },
		"rival's": func(p redis.Pipeliner, key string) { p.HSet(ctx, key, "token", "rival", "scope", "s") },
		"completed": func(p redis.Pipeliner, key string) {
			p.HSet(ctx, key, "token", "mine", "status", 200, "expires_at", expires)
		},
		"rival completed": func(p redis.Pipeliner, key string) {
			p.HSet(ctx, key, "token", "rival", "status", 200, "expires_at", expires)
		},
	}
	run := func(s *redis.Script, args ...any) func(key string) (any, error) {
		return func(key string) (any, error) { return s.Run(ctx, client, []string{key}, args...).Result() }
	}
	complete := func(origin string) func(key string) (any, error) {
		return func(key string) (any, error) {
			return completeScript.Run(ctx, client, []string{key, key + ":effect"},
				"mine", origin, retention.Milliseconds(), "f", 201, "", "body", 1, 2, "INCR", key+":effect").Result()
		}
	}
	type outcome struct {
		answer, token string
		ends          time.Duration
		effects       string
	}
	for _, c := range []struct {
		script string
		run    func(key string) (any, error)
		want   map[string]outcome
	}{
		{"claim", run(claimScript, "mine", lease.Milliseconds(), "s", "o", "k"), map[string]outcome{
			"none":            {"claimed", "mine", lease, ""},
			"claimed":         {"claimed", "mine", lease, ""},
			"rival's":         {"held", "rival", earlier, ""},
			"completed":       {"record", "mine", earlier, ""},
			"rival completed": {"record", "rival", earlier, ""},
		}},
		{"extend", run(extendScript, "mine", lease.Milliseconds()), map[string]outcome{
			"none":            {"0", "", 0, ""},
			"claimed":         {"1", "mine", lease, ""},
			"rival's":         {"0", "rival", earlier, ""},
			"completed":       {"0", "mine", earlier, ""},
			"rival completed": {"0", "rival", earlier, ""},
		}},
		{"confirm", run(confirmScript, "mine"), map[string]outcome{
			"none":            {"gone", "", 0, ""},
			"claimed":         {"gone", "mine", earlier, ""},
			"rival's":         {"gone", "rival", earlier, ""},
			"completed":       {"done", "mine", earlier, ""},
			"rival completed": {"gone", "rival", earlier, ""},
		}},
		{"abandon", run(abandonScript, "mine"), map[string]outcome{
			"none":            {"gone", "", 0, ""},
			"claimed":         {"freed", "", 0, ""},
			"rival's":         {"gone", "rival", earlier, ""},
			"completed":       {"done", "mine", earlier, ""},
			"rival completed": {"gone", "rival", earlier, ""},
		}},
		{"release an answer", run(releaseScript, "mine", kindAnswer), map[string]outcome{
			"none":            {"", "", 0, ""},
			"claimed":         {kindClaim, "mine", earlier, ""},
			"rival's":         {kindClaim, "rival", earlier, ""},
			"completed":       {"", "", 0, ""},
			"rival completed": {kindAnswer, "rival", earlier, ""},
		}},
		{"release a claim", run(releaseScript, "mine", kindClaim), map[string]outcome{
			"none":            {"", "", 0, ""},
			"claimed":         {"", "", 0, ""},
			"rival's":         {kindClaim, "rival", earlier, ""},
			"completed":       {kindAnswer, "mine", earlier, ""},
			"rival completed": {kindAnswer, "rival", earlier, ""},
		}},
		{"complete what was claimed", complete(claimed), map[string]outcome{
			"none":            {"lost", "", 0, ""},
			"claimed":         {"done", "mine", retention, "1"},
			"rival's":         {"lost", "rival", earlier, ""},
			"completed":       {"done", "mine", earlier, ""},
			"rival completed": {"lost", "rival", earlier, ""},
		}},
		{"complete without a claim", complete(unclaimed), map[string]outcome{
			"none":            {"done", "mine", retention, "1"},
			"rival's":         {"lost", "rival", earlier, ""},
			"completed":       {"done", "mine", earlier, ""},
			"rival completed": {"lost", "rival", earlier, ""},
		}},
	} {
		for state, want := range c.want {
			key := fmt.Sprintf("scripts-%d:%s:%s", time.Now().UnixNano(), c.script, state)
			_, err := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				states[state](p, key)
				p.PExpire(ctx, key, earlier)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			answer, err := c.run(key)
			if err != nil {
				t.Fatal(err)
			}
			if list, ok := answer.([]any); ok {
				answer = list[0]
			}
			got := outcome{
				answer:  fmt.Sprint(answer),
				token:   client.HGet(ctx, key, "token").Val(),
				ends:    max(client.PTTL(ctx, key).Val(), 0),
				effects: client.Get(ctx, key+":effect").Val(),
			}
			if (got.ends - want.ends).Abs() < 5*time.Second {
				got.ends = want.ends
			}
			if got != want {
				t.Errorf("%s, %s: %+v, want %+v", state, c.script, got, want)
			}
		}
	}
}
