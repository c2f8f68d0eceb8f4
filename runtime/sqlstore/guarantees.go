package sqlstore

import (
	"database/sql"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

var _ idempotency.DurableStore[*sql.Tx] = (*Store)(nil)

// Guarantees returns what the store promises, which is because of this:
//   - Atomic: the answer is inserted in the transaction that work writes through,
//     and committed with it. On MySQL that covers tables of InnoDB alone.
//   - Fenced: a claim ends with its transaction, or with its session on MySQL.
//     Where two attempts have claimed, as on two nodes of a Galera cluster, the
//     unique key lets one of them commit.
//   - Survives: answers are rows like others. A crash keeps those that are
//     committed if the database flushes each commit: SQLite does, since synchronous
//     is FULL, and others by default. A failover keeps them if replication is
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
