package dynamostore

import "github.com/idemgen/idemgen/runtime/idempotency"

var _ idempotency.DurableStore[*Tx] = (*Store)(nil)

// Guarantees returns what the store promises, which is because of this:
//   - Atomic: the answer is one of the items of the TransactWriteItems that writes
//     what was queued on the Tx.
//   - Fenced: its condition compares the claim's token.
//   - Survives: DynamoDB acknowledges a write when it is durable in several
//     availability zones, and records are read consistently. That ends at the
//     region's border: see the package comment on global tables.
func (*Store) Guarantees() idempotency.Guarantees {
	return idempotency.Guarantees{
		Atomic:   idempotency.AtomicQueued,
		Fenced:   idempotency.FencedByToken,
		Survives: idempotency.SurvivesFailover,
	}
}

// SurvivesFailover makes the store an [idempotency.DurableStore].
func (*Store) SurvivesFailover() {}
