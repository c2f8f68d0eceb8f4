package redisstore

import "github.com/idemgen/idemgen/runtime/idempotency"

// Guarantees returns what the store promises, which is because of this:
//   - Atomic: the script that stores the answer applies what was queued on the Tx,
//     or undoes it.
//   - Fenced: it compares the claim's token first.
//   - Survives: Redis replicates asynchronously, so a failover can lose answers that
//     were acknowledged, with what was queued, and so can a restart without
//     appendfsync always. [WithReplicas] makes that rarer and does not prevent it.
func (*Store) Guarantees() idempotency.Guarantees {
	return idempotency.Guarantees{
		Atomic:   idempotency.AtomicQueued,
		Fenced:   idempotency.FencedByToken,
		Survives: idempotency.SurvivesProcess,
	}
}
