package pgxstore

import (
	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

var _ idempotency.DurableStore[pgx.Tx] = (*Store)(nil)

// Guarantees returns what the store promises, which is because of this:
//   - Atomic: the answer is inserted in the transaction that work writes through,
//     and committed with it.
//   - Fenced: a claim ends with its transaction. Where two attempts have claimed,
//     as behind a server whose advisory locks keep nobody out, the unique index
//     lets one of them commit.
//   - Survives: answers are rows like others. A crash keeps those that are
//     committed unless synchronous_commit is off, a failover if replication is
//     synchronous. Where one is lost, the effects are lost with it.
func (*Store) Guarantees() idempotency.Guarantees {
	return idempotency.Guarantees{
		Atomic:   idempotency.AtomicTransaction,
		Fenced:   idempotency.FencedByTransaction,
		Survives: idempotency.SurvivesFailover,
	}
}

// SurvivesFailover makes the store an [idempotency.DurableStore].
func (*Store) SurvivesFailover() {}
