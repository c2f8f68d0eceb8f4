package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// untilAnswered sends req to st as a client does, again while it is in flight,
// and expects one of the answers with this body.
func (s *suite[Tx]) untilAnswered(st Store[Tx], req idempotency.Request, body string) {
	for s.ctx.Err() == nil {
		res, err := st.Execute(s.ctx, req, s.work(answer(body)))
		switch {
		case errors.Is(err, idempotency.ErrInFlight):
			runtime.Gosched()
			continue
		case err != nil:
			s.Errorf("key %s: %v", req.Key, err)
		default:
			s.same(res.Response, answer(body))
		}
		return
	}
	s.Errorf("key %s: in flight for ever", req.Key)
}

// Many clients send many requests, each several times and to every replica:
// each has one effect and one answer.
//
// Covers CON-01, CON-02, CON-08, STO-18.
func concurrency[Tx any](s *suite[Tx]) {
	const clients, keys, duplicates = 32, 20, 10
	attempts := make([]int, 0, keys*duplicates)
	for i := range keys * duplicates {
		attempts = append(attempts, i%keys)
	}
	rand.Shuffle(len(attempts), func(i, j int) { attempts[i], attempts[j] = attempts[j], attempts[i] })

	var next atomic.Int64
	var wg sync.WaitGroup
	for c := range clients {
		st := s.stores()[c%len(s.stores())]
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(attempts) {
					return
				}
				key := fmt.Sprint(attempts[i])
				s.untilAnswered(st, request(key), key)
			}
		})
	}
	wg.Wait()
	for i := range keys {
		s.wantEffects(fmt.Sprint(i), 1)
	}
	if s.Effects == nil && s.runs.Load() != keys {
		s.Errorf("%d runs of work, want %d", s.runs.Load(), keys)
	}
}

// All retries of an answered request are replayed, however many come at once: a
// record decides, and those that read it are not in each other's way.
//
// Covers CON-09.
func replaysAtOnce[Tx any](s *suite[Tx]) {
	const clients, retries = 8, 20
	s.executes(s.Store, request("k"), "first")
	var wg sync.WaitGroup
	for c := range clients {
		st := s.stores()[c%len(s.stores())]
		wg.Go(func() {
			for range retries {
				res, err := st.Execute(s.ctx, request("k"), s.never)
				if err != nil || !res.Replayed {
					s.Errorf("Execute: %v, Replayed %v; want a replay", err, res.Replayed)
					return
				}
				s.same(res.Response, answer("first"))
			}
		})
	}
	wg.Wait()
	s.wantEffects("first", 1)
}

// While one request runs, all its copies are answered in flight and other
// keys are executed. Nobody waits for the handler.
//
// Covers CON-02, CON-06, CON-07, CON-09.
func thunderingHerd[Tx any](s *suite[Tx]) {
	const copies = 100
	req := request("k")
	answered := make(chan error, copies)
	send := func(st Store[Tx]) {
		res, err := st.Execute(s.ctx, req, s.never)
		if err == nil && !res.Replayed {
			err = errors.New("answered, but not replayed")
		}
		answered <- err
	}
	inFlight := 0
	collect := func() {
		for range copies {
			switch err := wait(s, answered, "a copy's answer"); {
			case errors.Is(err, idempotency.ErrInFlight):
				inFlight++
			case err != nil:
				s.Errorf("copy: %v", err)
			}
		}
	}
	_, err := s.Store.Execute(s.ctx, req, func(ctx context.Context, tx Tx) (idempotency.Response, error) {
		for i := range copies {
			go send(s.stores()[i%len(s.stores())])
		}
		if !s.oneWriter {
			collect()
			if inFlight != copies {
				s.Errorf("%d of %d copies in flight, want all", inFlight, copies)
			}
			s.executes(s.Store, request("bystander"), "bystander")
		}
		return s.work(answer("first"))(ctx, tx)
	})
	if err != nil {
		s.Fatalf("Execute: %v", err)
	}
	if s.oneWriter { // copies on the replica wait for the writer and are replayed
		collect()
	}
	s.replays(s.Store, req, answer("first"))
	s.wantEffects("first", 1)
}
