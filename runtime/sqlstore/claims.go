package sqlstore

import "sync"

// claims are the records that this store is about to write: the early sign
// by which a duplicate is refused without a connection. The database decides;
// a lost entry would cost a wait, not a second effect. An entry ends before the
// claim in the database does, so that it refuses nobody who could claim.
type claims struct {
	mu   sync.Mutex
	held map[[16]byte]struct{}
}

func (c *claims) has(id [16]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, held := c.held[id]
	return held
}

// take reports whether id was free, and holds it.
func (c *claims) take(id [16]byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, held := c.held[id]; held {
		return false
	}
	c.held[id] = struct{}{}
	return true
}

func (c *claims) drop(id [16]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, id)
}
