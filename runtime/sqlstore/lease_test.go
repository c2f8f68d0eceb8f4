package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// refundRequest is the request of refund.
func refundRequest() idempotency.Request {
	req := request("refund")
	req.Lease = time.Minute
	return req
}

// refund makes a refund in lease mode: a call to another system that takes a key,
// which the table of effects stands for.
func refund(ctx context.Context, s *sqlstore.Store, provider *sql.DB) error {
	_, _, err := idempotency.Do(ctx, idempotency.Leases(s, time.Minute), refundRequest(), func(ctx context.Context, _ *idempotency.Lease) (string, error) {
		key, err := idempotency.DeriveUUID(ctx, "provider: refund")
		if err != nil {
			return "", err
		}
		_, err = provider.ExecContext(ctx, "INSERT INTO effects (label) SELECT '"+key+"' FROM (SELECT 1) AS one WHERE NOT EXISTS (SELECT 1 FROM effects WHERE label = '"+key+"')")
		if err == nil {
			_, err = provider.ExecContext(ctx, "SELECT 'refunded'")
		}
		return "the stored answer", err
	})
	return err
}

// refunded expects that the request of a process which is dead can be settled:
// at once, or if it has left a claim, when its lease has passed. back moves all
// records back by more than that.
func refunded(t *testing.T, s *sqlstore.Store, db *sql.DB, claimed bool, back string) {
	t.Helper()
	err := refund(t.Context(), s, db)
	if claimed {
		if !isInFlight(err) {
			t.Errorf("retry at once: %v, want %v", err, idempotency.ErrInFlight)
		}
		if _, err := db.ExecContext(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		err = refund(t.Context(), s, db)
	}
	if err != nil {
		t.Errorf("retry: %v", err)
	}
	rec, err := s.Lookup(t.Context(), refundRequest().Identity)
	if err != nil || rec.Response.Status != 200 || !rec.LeaseUntil.IsZero() {
		t.Errorf("Lookup: %+v, %v", rec, err)
	}
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM effects").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d effects, %v", n, err)
	}
}

// A process that is killed at any point of lease mode leaves nothing, a claim
// that is taken over when its lease has passed, or an answer. A system that
// takes derived keys has one effect in any case.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKilledProcessUnderALease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at      moment
		claimed bool
	}{
		{beforeClaim, false},
		{afterClaim, true},
		{afterEffect, true},
		{beforeCompletion, true},
		{afterCompletion, false},
	} {
		t.Run(string(c.at), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "test.db")
			db := openDB(t, file, wal, 0)
			prepare(t, db)
			out, err := command(t, underLease+string(c.at), file).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Exited() {
				t.Fatalf("the process was not killed: %v\n%s", err, out)
			}
			refunded(t, newStore(t, db), db, c.claimed,
				"UPDATE idempotency_records SET created_at = created_at - 61000, expires_at = expires_at - 61000, lease_until = lease_until - 61000")
		})
	}
}

// steps are what tells the statements of a lease on the wire of [server.plain].
func (s server) steps() (claim, extension, completion string) {
	if s.driver == "mysql" {
		return "IS_FREE_LOCK", "GREATEST(lease_until", "the stored answer"
	}
	return "pg_try_advisory_xact_lock($9", "greatest(lease_until", "SET lease_until = NULL"
}

// plain makes each statement of dsn one message, its text included.
func (s server) plain(dsn string) string {
	switch s.driver {
	case "pgx":
		return dsn + "&default_query_exec_mode=exec"
	case "postgres":
		return dsn + "&binary_parameters=yes"
	}
	return dsn
}

// The same on servers.
//
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestProcessKilledUnderALeaseOnServer(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		claim, _, completion := srv.steps()
		for _, c := range []struct {
			name, at string
			fate     fate
			claimed  bool
		}{
			{"BeforeTheClaim", claim, blackhole, false},
			{"WithTheClaim", claim, holdAnswer, true},
			{"BeforeTheEffect", "INSERT INTO effects", blackhole, true},
			{"AfterTheEffect", "SELECT 'refunded'", holdAnswer, true},
			{"BeforeCompletion", completion, blackhole, true},
			{"AfterCompletion", completion, holdAnswer, false},
		} {
			t.Run(srv.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				db, dsn := srv.pool(t)
				p, through := srv.proxied(t, srv.plain(dsn))
				srv.killVictim(t, through, "yes", p.on(c.at, c.fate))
				refunded(t, srv.store(t, dsn, 0), db, c.claimed, fmt.Sprintf(srv.back, "idempotency_records", 61_000))
			})
		}
	}
}

// A connection that ends in a step of a lease costs nothing: the step is made
// again on another one, and no attempt takes its own claim for a rival's, its
// own completion for a lost lease, or the key that it has freed for a lost one.
//
// Covers CRA-08, CRA-09.
func TestConnectionEndsInAStepOfALease(t *testing.T) {
	t.Parallel()
	failure := errors.New("the provider refused")
	for _, srv := range servers() {
		_, dsn := srv.pool(t)
		claim, extension, completion := srv.steps()
		for name, step := range map[string]string{"Claim": claim, "Extension": extension, "Completion": completion, "Release": "DELETE FROM"} {
			for fate, how := range map[string]fate{"Cut": cut, "AnswerLost": loseAnswer} {
				t.Run(srv.name+"/"+name+fate, func(t *testing.T) {
					t.Parallel()
					p, through := srv.proxied(t, srv.plain(dsn))
					leases := idempotency.Leases(srv.store(t, through, 2), time.Minute)
					req := refundRequest()
					req.Key = fmt.Sprintf("%x", t.Name())
					struck := p.on(step, how)
					runs := 0
					work := func(ctx context.Context, l *idempotency.Lease) (idempotency.Response, error) {
						runs++
						err := l.Extend(ctx, time.Hour)
						if errors.Is(err, idempotency.ErrUnavailable) {
							err = l.Extend(ctx, time.Hour)
						}
						if err == nil && name == "Release" && runs == 1 {
							err = failure
						}
						return created("the stored answer"), err
					}
					want := 1
					if name == "Release" {
						want = 2
						if _, err := leases.Execute(t.Context(), req, work); err != failure { //nolint:errorlint // as it was, not wrapped
							t.Errorf("failing attempt: %v, want the handler's own error", err)
						}
					}
					for i := range 2 {
						res, err := leases.Execute(t.Context(), req, work)
						if err != nil || res.Replayed != (i == 1) || string(res.Body) != "the stored answer" {
							t.Errorf("attempt %d: %+v, %v", i, res, err)
						}
					}
					<-struck
					if runs != want {
						t.Errorf("%d runs, want %d", runs, want)
					}
				})
			}
		}
	}
}

// An attempt whose lease has passed, and that completes while another one takes
// its claim over, keeps its answer, and the other one replays it.
//
// Covers CON-10.
func TestAnswerBeatsTakeOver(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		for _, c := range []struct {
			name, before string
			attempt      func(context.Context, *sqlstore.Store, idempotency.Request) (idempotency.Result, error)
		}{
			{"Lease", "SET lease_token", func(ctx context.Context, s *sqlstore.Store, req idempotency.Request) (idempotency.Result, error) {
				return s.AcquireLease(ctx, req, idempotency.LeaseToken{2})
			}},
			{"Transaction", "DELETE FROM", func(ctx context.Context, s *sqlstore.Store, req idempotency.Request) (idempotency.Result, error) {
				return s.Execute(ctx, req, srv.work("k"))
			}},
		} {
			t.Run(srv.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				db, dsn := srv.pool(t)
				holder := srv.on(t, db)
				req := refundRequest()
				if _, err := holder.AcquireLease(t.Context(), req, idempotency.LeaseToken{1}); err != nil {
					t.Fatal(err)
				}
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf(srv.back, "idempotency_records", 61_000)); err != nil {
					t.Fatal(err)
				}
				p, through := srv.proxied(t, srv.plain(dsn))
				s := srv.store(t, through, 2)
				p.before(c.before, func() {
					if err := holder.CompleteLease(t.Context(), req, idempotency.LeaseToken{1}, created("first")); err != nil {
						t.Error(err)
					}
				})
				res, err := c.attempt(t.Context(), s, req)
				if err != nil || !res.Replayed || string(res.Body) != "first" {
					t.Errorf("%+v, %v; want the answer that was first", res, err)
				}
				if n := count(t, db, "k"); n != 0 {
					t.Errorf("%d effects", n)
				}
			})
		}
	}
}

// A lease that has passed, and that its holder extends while another attempt
// takes it over, stays with its holder.
//
// Covers CON-10.
func TestExtensionBeatsTakeOver(t *testing.T) {
	t.Parallel()
	holder, req := idempotency.LeaseToken{1}, refundRequest()
	check := func(t *testing.T, s *sqlstore.Store) {
		t.Helper()
		if _, err := s.AcquireLease(t.Context(), req, idempotency.LeaseToken{2}); !isInFlight(err) {
			t.Errorf("take-over: %v, want %v", err, idempotency.ErrInFlight)
		}
		if err := s.CompleteLease(t.Context(), req, holder, created("first")); err != nil {
			t.Errorf("CompleteLease: %v", err)
		}
	}
	claim := func(t *testing.T, s *sqlstore.Store, db *sql.DB, back string) (extend func()) {
		t.Helper()
		if _, err := s.AcquireLease(t.Context(), req, holder); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), back); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := s.ExtendLease(t.Context(), req, holder, time.Minute); err != nil {
				t.Error(err)
			}
		}
	}
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := srv.pool(t)
			extend := claim(t, srv.on(t, db), db, fmt.Sprintf(srv.back, "idempotency_records", 61_000))
			p, through := srv.proxied(t, srv.plain(dsn))
			p.before("SET lease_token", extend)
			check(t, srv.store(t, through, 2))
		})
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "test.db")
		db := openDB(t, file, wal, 0)
		prepare(t, db)
		extend := claim(t, newStore(t, db), db, "UPDATE idempotency_records SET created_at = created_at - 61000, expires_at = expires_at - 61000, lease_until = lease_until - 61000")
		check(t, newStore(t, openFaults(t, file, func(at moment) error {
			if at == beforeTakeOver {
				extend()
			}
			return nil
		})))
	})
}

// A claim whose lease has passed is taken over as it was judged: where that of
// another request has come in its place meanwhile, and has passed too, it is a
// mismatch.
//
// Covers CON-10, FPR-01.
func TestTakeOverOfWhatWasJudged(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := srv.pool(t)
			holder, req := srv.on(t, db), refundRequest()
			other := req
			other.Fingerprint = idempotency.FingerprintOf([]byte("other payload"))
			leave := func(req idempotency.Request, token idempotency.LeaseToken) {
				t.Helper()
				if _, err := holder.AcquireLease(t.Context(), req, token); err != nil {
					t.Error(err)
				}
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf(srv.back, "idempotency_records", 61_000)); err != nil {
					t.Error(err)
				}
			}
			leave(req, idempotency.LeaseToken{1})
			p, through := srv.proxied(t, srv.plain(dsn))
			s := srv.store(t, through, 2)
			p.before("SET lease_token", func() {
				if err := holder.ReleaseLease(t.Context(), req, idempotency.LeaseToken{1}); err != nil {
					t.Error(err)
				}
				leave(other, idempotency.LeaseToken{3})
			})
			if _, err := s.AcquireLease(t.Context(), req, idempotency.LeaseToken{2}); !errors.Is(err, idempotency.ErrMismatch) {
				t.Errorf("AcquireLease: %v, want %v", err, idempotency.ErrMismatch)
			}
		})
	}
}

// A session's time zone moves no lease.
//
// Covers EXP-07, EXP-08.
func TestLeaseInEveryTimeZone(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			_, dsn := srv.pool(t)
			zones := []string{"&timezone=Pacific/Tongatapu", "&timezone=America/Los_Angeles", ""}
			if srv.driver == "mysql" {
				zones = []string{"?time_zone=%27%2B13:00%27", "?time_zone=%27-08:00%27", ""}
			}
			var stores []*sqlstore.Store
			for _, zone := range zones {
				stores = append(stores, srv.store(t, dsn+zone, 2))
			}
			for i, s := range stores {
				req := refundRequest()
				req.Key = fmt.Sprint(i)
				if _, err := s.AcquireLease(t.Context(), req, idempotency.LeaseToken{1}); err != nil {
					t.Fatal(err)
				}
				for j, other := range stores {
					if _, err := other.AcquireLease(t.Context(), req, idempotency.LeaseToken{2}); !isInFlight(err) {
						t.Errorf("%s and %s: %v, want %v", zones[i], zones[j], err, idempotency.ErrInFlight)
					}
					rec, err := other.Lookup(t.Context(), req.Identity)
					if left := time.Until(rec.LeaseUntil); err != nil || left < 30*time.Second || left > 2*time.Minute {
						t.Errorf("%s and %s: the lease ends in %v, %v", zones[i], zones[j], left, err)
					}
				}
			}
		})
	}
}

// An operator who releases a claim whose lease has passed does not free one that
// its holder has extended meanwhile.
//
// Covers CON-10.
func TestReleaseSparesAnExtendedLease(t *testing.T) {
	t.Parallel()
	for _, srv := range servers() {
		t.Run(srv.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := srv.pool(t)
			holder := srv.on(t, db)
			req := refundRequest()
			if _, err := holder.AcquireLease(t.Context(), req, idempotency.LeaseToken{1}); err != nil {
				t.Fatal(err)
			}
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf(srv.back, "idempotency_records", 61_000)); err != nil {
				t.Fatal(err)
			}
			p, through := srv.proxied(t, srv.plain(dsn))
			s := srv.store(t, through, 2)
			p.before("DELETE FROM", func() {
				if err := holder.ExtendLease(t.Context(), req, idempotency.LeaseToken{1}, time.Minute); err != nil {
					t.Error(err)
				}
			})
			if err := s.Release(t.Context(), req.Identity); !isInFlight(err) {
				t.Errorf("Release: %v, want %v", err, idempotency.ErrInFlight)
			}
			if err := holder.CompleteLease(t.Context(), req, idempotency.LeaseToken{1}, created("first")); err != nil {
				t.Errorf("CompleteLease: %v", err)
			}
		})
	}
}

// Work of a store that has one writer, and that waits for a lease of its own, is
// told so instead of waiting for itself.
func TestLeaseInsideATransactionOnSQLite(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), wal, 1)
	prepare(t, db)
	s := newStore(t, db)
	_, err := s.Execute(t.Context(), request("k"), func(ctx context.Context, _ *sql.Tx) (idempotency.Response, error) {
		_, acquire := s.AcquireLease(ctx, refundRequest(), idempotency.LeaseToken{1})
		for step, err := range map[string]error{
			"AcquireLease": acquire,
			"ExtendLease":  s.ExtendLease(ctx, refundRequest(), idempotency.LeaseToken{1}, time.Minute),
		} {
			if err == nil || !strings.Contains(err.Error(), "inside work of the same store") {
				t.Errorf("%s: %v", step, err)
			}
		}
		return created("k"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A claim of this package is one for package pgxstore, which takes it over when
// its lease has passed.
//
// Covers CON-10.
func TestLeaseIsSharedWithPgxstore(t *testing.T) {
	t.Parallel()
	for _, driver := range postgresqlDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := postgresqlServer(driver)
			db, dsn := srv.pool(t)
			pool, err := pgxpool.New(t.Context(), dsn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			native, err := pgxstore.New(t.Context(), pool)
			if err != nil {
				t.Fatal(err)
			}
			s, req := srv.on(t, db), refundRequest()
			own, other := idempotency.LeaseToken{1}, idempotency.LeaseToken{2}
			if _, err := s.AcquireLease(t.Context(), req, own); err != nil {
				t.Fatal(err)
			}
			if _, err := native.AcquireLease(t.Context(), req, other); !isInFlight(err) {
				t.Errorf("AcquireLease: %v, want %v", err, idempotency.ErrInFlight)
			}
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf(srv.back, "idempotency_records", 61_000)); err != nil {
				t.Fatal(err)
			}
			if _, err := native.AcquireLease(t.Context(), req, other); err != nil {
				t.Errorf("take-over: %v", err)
			}
			if err := s.ExtendLease(t.Context(), req, own, time.Hour); !errors.Is(err, idempotency.ErrLeaseLost) {
				t.Errorf("the late owner: %v, want %v", err, idempotency.ErrLeaseLost)
			}
			if err := native.CompleteLease(t.Context(), req, other, created("native")); err != nil {
				t.Fatal(err)
			}
			if res, err := s.AcquireLease(t.Context(), req, own); err != nil || !res.Replayed || string(res.Body) != "native" {
				t.Errorf("%+v, %v; want the other's answer", res, err)
			}
		})
	}
}
