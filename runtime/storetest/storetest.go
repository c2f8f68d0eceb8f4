// Package storetest is the conformance suite of idempotency stores. It examines
// the guarantee of package idempotency: what work does through the transaction
// happens at most once for each scope, operation and key, and every retry gets
// the answer that was committed with it. Run it against a real server; what
// crashes of a process do is for the store's own tests.
//
// A store's test says how the suite reaches it:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness[pgx.Tx]{Open: open, …})
//	}
//
// What a harness leaves out is skipped, and the test says so.
//
// [RunLeases] does the same for stores that offer leases, and [RunCodecs] for
// stores that take a codec. [RunRestart] and [RunOutage] look at a database that
// goes away and comes back.
//
// The suite uses nothing but the standard library.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// Store is what the suite examines. Where it is an [idempotency.Lister] too, that
// part is examined as well.
type Store[Tx any] interface {
	idempotency.Store[Tx]
	idempotency.Keeper
	// Guarantees says what the store promises. The fixture must be able to show
	// it.
	Guarantees() idempotency.Guarantees
}

// Harness says how the suite reaches one kind of store.
type Harness[Tx any] struct {
	// Open makes a store with data of its own, which no other test sees, and
	// registers its removal with t.Cleanup. It is called once for each check;
	// checks run in parallel.
	Open func(t *testing.T) Fixture[Tx]
	// OneWriter says that a handler keeps every other transaction out, as in
	// SQLite: a duplicate that comes to another replica waits and is then
	// replayed instead of being refused, and a nested Execute is refused.
	OneWriter bool
	// Unseen says that a replica does not see a handler at work in a transaction
	// before its commit, as on another node of a Galera cluster. It is for
	// [RunLeases]; [Run] needs a replica that sees it.
	Unseen bool
	// NoEffects says why this server cannot show effects that the store says are
	// atomic, as an emulator without transactions. It is empty everywhere else.
	NoEffects string
	// Faults are what a handler may wrongly do to its transaction, by name:
	// commit it, roll it back, send COMMIT as text, let a statement fail and
	// go on. After each the suite expects an answer that was kept together
	// with the effects, or an error and no record.
	Faults map[string]func(ctx context.Context, tx Tx) error
	// MaxAnswer is how many bytes an answer may have, headers included. A larger
	// one is expected to be an error of code response_too_large, with nothing
	// kept. 0 where a MiB is no matter.
	MaxAnswer int
	// Conflict makes work fail as it does after a serialization failure or a
	// deadlock, and returns that error. Nil where a store knows no such thing.
	Conflict func(ctx context.Context, tx Tx) error
}

// Fixture is an open store and the means to look behind it. Every fixture needs a
// Store and Advance.
type Fixture[Tx any] struct {
	Store Store[Tx]
	// Replica is a second store on the same data that shares nothing else
	// with the first, as another process would have it. Nil where answers do not
	// survive the process.
	Replica Store[Tx]
	// Effect makes one business effect through tx, and Effects counts those
	// that were committed with this label. Both are nil for a store that says
	// that nothing is atomic with answers.
	Effect  func(ctx context.Context, tx Tx, label string) error
	Effects func(ctx context.Context, label string) (int, error)
	// Advance lets d pass as far as records are concerned: it moves the
	// store's clock, or the times of all records back.
	Advance func(ctx context.Context, d time.Duration) error
	// Cut makes the server unreachable for Store and not for Replica. To close
	// Store's client or pool will do. Nil where there is no server.
	Cut func()
}

// Run runs every check as a parallel subtest of t.
func Run[Tx any](t *testing.T, h Harness[Tx]) {
	for _, c := range []struct {
		name  string
		check func(*suite[Tx])
	}{
		{"Guarantees", guarantees[Tx](h)},
		{"Fenced", fenced[Tx]},
		{"FirstThenReplay", firstThenReplay[Tx]},
		{"ReplayIsByteForByte", replayIsByteForByte[Tx]},
		{"LargestAnswer", largestAnswer[Tx](h)},
		{"AnswersAreCopies", answersAreCopies[Tx]},
		{"Mismatch", mismatch[Tx]},
		{"InFlight", inFlight[Tx]},
		{"ReplicaSharesRecords", replicaSharesRecords[Tx]},
		{"IdentityIsExact", identityIsExact[Tx]},
		{"IdentityOfAnyBytes", identityOfAnyBytes[Tx]},
		{"LongestIdentity", longestIdentity[Tx]},
		{"NestedExecute", nestedExecute[Tx]},

		{"ErrorFreesKey", errorFreesKey[Tx]},
		{"PanicFreesKey", panicFreesKey[Tx]},
		{"GoexitFreesKey", goexitFreesKey[Tx]},
		{"FaultyHandler", faultyHandler[Tx](h)},
		{"LateUseOfTransaction", lateUse[Tx]},
		{"CancelledBefore", cancelledBefore[Tx]},
		{"CancelledDuring", cancelledDuring[Tx]},
		{"Rerun", rerun[Tx](h)},
		{"Transact", transact[Tx]},

		{"Expiry", expiry[Tx]},
		{"ExpiryWhileAnswered", expiryWhileAnswered[Tx]},
		{"ExpiryWhileRunning", expiryWhileRunning[Tx]},
		{"RetentionFromCompletion", retentionFromCompletion[Tx]},
		{"AgeOfKey", ageOfKey[Tx]},
		{"OptionsBelongToOperation", optionsBelongToOperation[Tx]},
		{"Sweep", sweep[Tx]},
		{"SweepSparesClaim", sweepSparesClaim[Tx]},
		{"SweepBesideExecute", sweepBesideExecute[Tx]},
		{"Lookup", lookup[Tx]},
		{"Release", release[Tx]},
		{"ReleaseEntry", releaseEntry[Tx]},
		{"List", list[Tx]},
		{"ListBesideWrites", listBesideWrites[Tx]},
		{"Stats", stats[Tx]},

		{"Unreachable", unreachable[Tx]},

		{"Concurrency", concurrency[Tx]},
		{"ThunderingHerd", thunderingHerd[Tx]},
		{"ReplaysAtOnce", replaysAtOnce[Tx]},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.check(open(t, h))
		})
	}
}
