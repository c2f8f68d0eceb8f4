package idempotency

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Lister is what a store offers to those who look at its records, beside
// [Keeper].
type Lister interface {
	// List yields the entries that filter selects, in an order of the store's
	// own. It reads a page at a time and holds nothing meanwhile, no
	// transaction, no lock and no connection: requests are served as always,
	// and the caller may take its time. A record that is there from beginning
	// to end is yielded once; one that comes, goes or changes meanwhile may be
	// yielded as it was or not at all. An error is yielded once, and is the
	// last; it matches [ErrUnavailable] where the store cannot be reached.
	//
	// A claim is an entry where it is a record: in lease mode, and on stores
	// whose claims all are. A claim that is a lock of a running transaction is
	// none; the database's own list of locks shows it.
	List(ctx context.Context, filter Filter) iter.Seq2[Entry, error]
	// Stats counts the records. It reads all of them, without locks.
	Stats(ctx context.Context) (Stats, error)
	// ReleaseEntry deletes the record that e lists, so that the next request
	// with its key runs. In one step it looks whether that record is still
	// there and deletes it: never another one that has come since, be it the
	// answer of the same claim. Where it returns an error nothing was deleted,
	// unless it matches [ErrUnavailable]: then nobody knows.
	//
	// A claim that is live is deleted only if e was listed as one, with
	// [StateClaim]. The attempt that holds it may still be at work, and then
	// effects can happen twice; it cannot store its answer any more
	// ([ErrLeaseLost]), nor commit what the store's transaction carries.
	//
	// Other errors match one of these:
	//   - [ErrNotFound]: there is no record.
	//   - [ErrInFlight]: a live claim is there, and e is not that claim or was
	//     listed when its lease had passed; or the claim is a lock of a running
	//     transaction, which only the end of the transaction gives back.
	//   - [ErrChanged]: another record is there.
	//
	// An Entry without a Version lists no record. Nothing is deleted for it, and
	// the error says what is there.
	ReleaseEntry(ctx context.Context, e Entry) error
}

// ErrChanged is returned by [Lister] where a record is not the one that was
// listed: that one has been completed, taken over, or deleted and made anew.
var ErrChanged = errors.New("idempotency: the record is not the one that was listed")

// State is what a record is worth at the time at which it is read, by the
// store's clock.
type State int

// The states of a record.
const (
	// StateAnswer is a stored answer, which is replayed.
	StateAnswer State = iota + 1
	// StateClaim is a claim that is held: the key is in flight.
	StateClaim
	// StatePassed is a claim whose lease has passed. The next request takes
	// it over.
	StatePassed
	// StateExpired is an answer or a claim whose retention is over. It is as
	// good as gone, and a sweep deletes it.
	StateExpired
)

var stateNames = [...]string{StateAnswer: "answer", StateClaim: "claim", StatePassed: "passed", StateExpired: "expired"}

// StateOf returns the state of a record at now, both times and now being of
// one clock. LeaseUntil is zero for a stored answer.
func StateOf(now, leaseUntil, expiresAt time.Time) State {
	switch {
	case !now.Before(expiresAt):
		return StateExpired
	case leaseUntil.IsZero():
		return StateAnswer
	case now.Before(leaseUntil):
		return StateClaim
	}
	return StatePassed
}

// String returns "answer", "claim", "passed" or "expired", and "any" for the
// zero State.
func (s State) String() string {
	if s == 0 {
		return "any"
	}
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// MarshalText returns [State.String].
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes what [State.String] returns.
func (s *State) UnmarshalText(text []byte) error {
	for known := range State(len(stateNames)) {
		if known.String() == string(text) {
			*s = known
			return nil
		}
	}
	return fmt.Errorf("idempotency: %q is no state of a record: use any, answer, claim, passed or expired", text)
}

// Filter selects entries. The zero Filter selects all; each field that is set
// selects among those.
type Filter struct {
	ID        [16]byte // of the one record, see [Identity.ID]
	Scope     string
	Operation string
	State     State
}

// Selects reports whether f selects e.
func (f Filter) Selects(e Entry) bool {
	return (f.Scope == "" || f.Scope == e.Scope) &&
		(f.Operation == "" || f.Operation == e.Operation) &&
		(f.State == 0 || f.State == e.State) &&
		(f.ID == [16]byte{} || f.ID == e.ID())
}

// Entry is a record as it is listed: what it is, without what was answered.
// [Keeper.Lookup] returns the rest. Times that a store does not keep are zero:
// those that key stores leave to the server's own time to live.
type Entry struct {
	Identity
	State      State
	Status     int       // of the answer; 0 for a claim
	Bytes      int64     // of the answer's headers and body, as they are stored
	CreatedAt  time.Time // when the answer was committed or the claim made
	ExpiresAt  time.Time
	LeaseUntil time.Time // zero for a stored answer
	// Version tells the record from those before and after it under the same
	// key: an answer from the claim that it completes, and a claim from the one
	// that takes it over, but not from itself when its lease is extended. It is
	// of the store's making, to be compared and nothing else.
	Version string
}

// Stats counts the records of a store.
type Stats struct {
	Counts                       // of all records
	Operations map[string]Counts // of each operation's
}

// Counts is how many records there are in each state.
type Counts struct {
	Answers, Claims, Passed, Expired int64

	Bytes int64 // of headers and bodies, as they are stored, in any state
	// Oldest and Newest are when the first and the last of the records were
	// made, as far as the store keeps that; zero where there are none.
	Oldest, Newest time.Time
}

// Add counts the records of an operation in.
func (s *Stats) Add(operation string, c Counts) {
	if s.Operations == nil {
		s.Operations = make(map[string]Counts)
	}
	o := s.Operations[operation]
	o.add(c)
	s.Operations[operation] = o
	s.add(c)
}

func (c *Counts) add(more Counts) {
	c.Answers += more.Answers
	c.Claims += more.Claims
	c.Passed += more.Passed
	c.Expired += more.Expired
	c.Bytes += more.Bytes
	if c.Oldest.IsZero() || !more.Oldest.IsZero() && more.Oldest.Before(c.Oldest) {
		c.Oldest = more.Oldest
	}
	if more.Newest.After(c.Newest) {
		c.Newest = more.Newest
	}
}

// Counts returns the counts of e alone.
func (e Entry) Counts() Counts {
	c := Counts{Bytes: e.Bytes, Oldest: e.CreatedAt, Newest: e.CreatedAt}
	switch e.State {
	case StateAnswer:
		c.Answers = 1
	case StateClaim:
		c.Claims = 1
	case StatePassed:
		c.Passed = 1
	case StateExpired:
		c.Expired = 1
	}
	return c
}
