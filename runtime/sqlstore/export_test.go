package sqlstore

import "time"

// WithFinishTimeout limits commits, rollbacks and the search for a commit's
// fate, in tests that wait for it.
func WithFinishTimeout(d time.Duration) Option { return func(c *config) { c.finishTimeout = d } }

// WithStartTimeout limits New, in tests that wait for it.
func WithStartTimeout(d time.Duration) Option { return func(c *config) { c.startTimeout = d } }

// SweepStatements are those of a batch as they are kept, for a look at their
// plans.
func (s *Store) SweepStatements() []string {
	switch e := s.engine.(type) {
	case *sqliteEngine:
		return []string{e.purge}
	case *mysqlEngine:
		return []string{e.due, e.purge}
	}
	return nil
}
