package pgxstore_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// A first request is one commit, as its bare transaction is: the claim and the
// record have none of their own.
func TestFirstRequestAddsNoCommit(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	admin := newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.ConnConfig.Database = "postgres" })
	database := newPool(t, dsn).Config().ConnConfig.Database

	// committed returns how many transactions the server has counted for the
	// database once n requests have been made and their sessions have ended,
	// which is when a session reports the last of its own.
	committed := func(n int) (commits int) {
		pool := newPool(t, dsn, func(cfg *pgxpool.Config) { cfg.ConnConfig.RuntimeParams["application_name"] = "counted" })
		s := newStore(t, pool)
		for i := range n {
			key := fmt.Sprintf("%d-%d", n, i)
			if _, err := s.Execute(t.Context(), request(key, "a"), pay(key)); err != nil {
				t.Fatal(err)
			}
		}
		pool.Close()
		for sessions := 1; sessions > 0; {
			err := admin.QueryRow(t.Context(), "select count(*), (select xact_commit from pg_stat_database where datname = $1)"+
				" from pg_stat_activity where datname = $1 and application_name = 'counted'", database).Scan(&sessions, &commits)
			if err != nil {
				t.Fatal(err)
			}
		}
		return commits
	}
	start := committed(0)
	few := committed(10) - start
	many := committed(60) - start - few
	// Both runs opened a store; the difference is that of 50 requests. A vacuum
	// that comes along may add some.
	if added := many - few; added < 50 || added >= 75 {
		t.Errorf("50 first requests made %d commits", added)
	}
}
