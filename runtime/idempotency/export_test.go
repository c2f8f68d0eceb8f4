package idempotency

var ErrPanicked = errPanicked

// Rooms returns for how many keys duplicates wait.
func (e *Edge[Tx]) Rooms() int {
	e.waiters.mu.Lock()
	defer e.waiters.mu.Unlock()
	return len(e.waiters.rooms)
}
