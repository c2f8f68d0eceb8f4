package memstore

import "github.com/idemgen/idemgen/runtime/idempotency"

// Guarantees returns that the store promises nothing: there is no transaction, and
// the process has everything. A claim cannot be lost, and is not fenced, since it
// ends with its work. (In lease mode it is fenced by its token, as everywhere.)
func (*Store) Guarantees() idempotency.Guarantees {
	return idempotency.Guarantees{
		Atomic:   idempotency.AtomicNothing,
		Fenced:   idempotency.FencedByNothing,
		Survives: idempotency.SurvivesNothing,
	}
}
