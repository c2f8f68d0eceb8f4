package sqlstore

import "time"

// WithFinishTimeout limits commits, rollbacks and the search for a commit's
// fate, in tests that wait for it.
func WithFinishTimeout(d time.Duration) Option { return func(c *config) { c.finishTimeout = d } }
