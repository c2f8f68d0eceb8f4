package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// probePause is the time between two tries at a probe that others are in the way of.
const probePause = 20 * time.Millisecond

// probe stores a record as a request does, reads it as a retry does, and rolls
// back. It finds what no look at the table's definition does: triggers, rules and
// policies that refuse, drop or hide records after their handlers have run, and
// connections that only read. It waits for others as a claim does; where they
// keep it out for longer, it is left to the first request.
func (s *Store) probe(ctx context.Context, table string) error {
	trying, cancel := context.WithTimeout(ctx, s.claimTimeout)
	defer cancel()
	err := s.storeAndRead(trying)
	for err != nil && s.engine.judge(err) == conflict && sleep(trying, probePause) == nil {
		err = s.storeAndRead(trying)
	}
	late := trying.Err() != nil && s.engine.oneWriter() // its driver's error need not say what it waited for
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && (late || s.engine.judge(err) == conflict):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("sqlstore: it could not be tried whether the table %s keeps records: until the time was over, others held the turn to write or the database gave no answer: %w", table, context.Cause(ctx))
	}
	err = fmt.Errorf("sqlstore: a record cannot be kept in the table %s: %w", table, err)
	if remedy := s.engine.remedy(err); remedy != "" {
		err = fmt.Errorf("%w: %s", err, remedy)
	}
	return err
}

func (s *Store) storeAndRead(ctx context.Context) error {
	req := idempotency.Request{Identity: idempotency.Identity{Scope: "probe", Operation: "probe", Key: rand.Text()}, Retention: time.Hour}
	k := keyOf(req.Identity)
	a, err := s.engine.claim(ctx, k)
	if err != nil {
		return err
	}
	defer a.end(s.finishTimeout)
	if !a.held {
		return errors.New("the key of a new record is claimed already")
	}
	if err := s.engine.insert(ctx, a, k, req, answer{status: 200, header: []byte{}}); err != nil {
		return err
	}
	r, err := s.engine.reread(ctx, a, k)
	switch {
	case err != nil:
		return err
	case r == nil:
		return errHidden
	case r.of(req) != nil || r.status != 200 || !r.live():
		return errChanged
	}
	return nil
}

// errDropped says that the record's INSERT was carried out and stored nothing.
var errDropped = errors.New("it was not stored: a trigger or a rule of the table drops it; remove that")

// errHidden and errChanged say that a retry would not find what was stored.
var (
	errHidden  = errors.New("it was stored and cannot be read, so that a retry would run its handler again: remove the trigger of the table that removes it or changes its id")
	errChanged = errors.New("it does not read as it was stored: a trigger of the table changes it; remove that")
)
