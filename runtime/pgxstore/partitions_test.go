package pgxstore_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// daily makes a table with a partition for each day.
var daily = pgxstore.WithPartitions(24 * time.Hour)

// newPartitioned is newDatabase with a partitioned table, as Schema prints it: it
// has no partition for any time yet.
func newPartitioned(t testing.TB) string {
	t.Helper()
	return partition(t, testenv.Postgres(t))
}

// partition makes that table, and one of effects, in the database of dsn.
func partition(t testing.TB, dsn string) string {
	t.Helper()
	sql, err := pgxstore.Schema(daily)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newPool(t, dsn).Exec(t.Context(), sql+"; create table effects (key text not null)"); err != nil {
		t.Fatal(err)
	}
	return dsn
}

// onServers runs test on a partitioned table of each release.
func onServers(t *testing.T, test func(t *testing.T, dsn string)) {
	t.Helper()
	for name, server := range map[string]func(testing.TB) string{"PostgreSQL": testenv.Postgres, "PostgreSQL18": testenv.Postgres18} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, partition(t, server(t)))
		})
	}
}

// today is when the present partition begins.
func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

// keyOf returns a UUIDv7 of the given time, which content tells from others.
func keyOf(at time.Time, content string) string {
	ms, sum := fmt.Sprintf("%012x", at.UnixMilli()), fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	return ms[:8] + "-" + ms[8:] + "-7" + sum[:3] + "-8" + sum[3:6] + "-" + sum[6:18]
}

// makePartition makes the partition of a day, from days before today.
func makePartition(t testing.TB, pool *pgxpool.Pool, days int, table string) {
	t.Helper()
	id := func(at time.Time) string {
		ms := fmt.Sprintf("%012x", at.UnixMilli())
		return ms[:8] + "-" + ms[8:] + "-0000-0000-000000000000"
	}
	from := today().Add(time.Duration(-days) * 24 * time.Hour)
	_, err := pool.Exec(t.Context(), fmt.Sprintf("create table %s_%d partition of %[1]s for values from ('%[3]s') to ('%[4]s')", table, days, id(from), id(from.Add(24*time.Hour))))
	if err != nil {
		t.Fatal(err)
	}
}

// yesterday makes the partition of yesterday and returns a key of it.
func yesterday(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	makePartition(t, pool, 1, "idempotency_records")
	return keyOf(today().Add(-time.Hour), "yesterday")
}

// partitionOf returns in which partition the record of a key is, or "".
func partitionOf(t testing.TB, pool *pgxpool.Pool, key string) (name string) {
	t.Helper()
	err := pool.QueryRow(t.Context(), "select tableoid::regclass::text from idempotency_records where key = $1", key).Scan(&name)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		t.Fatal(err)
	}
	return name
}

// partitions counts the partitions of the table.
func partitions(t testing.TB, pool *pgxpool.Pool) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), "select count(*) from pg_inherits where inhparent = 'idempotency_records'::regclass").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// wantSwept sweeps and expects n records to be gone.
func wantSwept(t *testing.T, s *pgxstore.Store, n int64) {
	t.Helper()
	if got, err := s.Sweep(t.Context()); got != n || err != nil {
		t.Errorf("%d records swept, %v; want %d", got, err, n)
	}
}

// wantReplay expects the answer of a key that execute has stored.
func wantReplay(t *testing.T, s *pgxstore.Store, key string) {
	t.Helper()
	if res, err := s.Execute(t.Context(), request(key, "a"), never(t)); err != nil || !res.Replayed {
		t.Errorf("%s: %+v, %v", key, res, err)
	}
}

// dated is a store whose keys are UUIDv7 of one of the last two days, made of those
// that it is given: it passes the conformance suite with records in partitions
// that are over. Its records are not listed, since their keys are others.
type dated struct {
	idempotency.LeaseStore[pgx.Tx]
	idempotency.Keeper
}

// newDatedFixture is newFixture with stores that change keys, and the partitions
// that these need.
func newDatedFixture(t *testing.T, dsn, schema string, opts []pgxstore.Option) storetest.Fixture[pgx.Tx] {
	t.Helper()
	f := newFixture(t, dsn, schema, opts)
	pool := newPool(t, dsn)
	for _, days := range []int{1, 2} {
		makePartition(t, pool, days, schema+".records")
	}
	for _, s := range []*storetest.Store[pgx.Tx]{&f.Store, &f.Replica} {
		own := (*s).(*pgxstore.Store)
		*s = dated{own, own}
	}
	return f
}

func (dated) Guarantees() idempotency.Guarantees { return new(pgxstore.Store).Guarantees() }

func (dated) SurvivesFailover() {}

func (d dated) identity(id idempotency.Identity) idempotency.Identity {
	if len(id.Key) != 36 {
		day := sha256.Sum256([]byte(id.Key))[0] >> 7
		id.Key = keyOf(today().Add(-time.Hour-time.Duration(day)*24*time.Hour), id.Key)
	}
	return id
}

func (d dated) request(req idempotency.Request) idempotency.Request {
	req.Identity = d.identity(req.Identity)
	return req
}

func (d dated) Execute(ctx context.Context, req idempotency.Request, work idempotency.Work[pgx.Tx]) (idempotency.Result, error) {
	return d.LeaseStore.Execute(ctx, d.request(req), work)
}

func (d dated) AcquireLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) (idempotency.Result, error) {
	return d.LeaseStore.AcquireLease(ctx, d.request(req), token)
}

func (d dated) ExtendLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, by time.Duration) error {
	return d.LeaseStore.ExtendLease(ctx, d.request(req), token, by)
}

func (d dated) CompleteLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken, resp idempotency.Response) error {
	return d.LeaseStore.CompleteLease(ctx, d.request(req), token, resp)
}

func (d dated) ReleaseLease(ctx context.Context, req idempotency.Request, token idempotency.LeaseToken) error {
	return d.LeaseStore.ReleaseLease(ctx, d.request(req), token)
}

func (d dated) Lookup(ctx context.Context, id idempotency.Identity) (idempotency.Record, error) {
	rec, err := d.Keeper.Lookup(ctx, d.identity(id))
	if rec.Identity == d.identity(id) {
		rec.Identity = id
	}
	return rec, err
}

func (d dated) Release(ctx context.Context, id idempotency.Identity) error {
	return d.Keeper.Release(ctx, d.identity(id))
}

// A new table gets the partitions of today and of a week ahead, and the records
// that came before them move there: they stay known.
func TestSweepMakesPartitions(t *testing.T) {
	t.Parallel()
	onServers(t, sweepMakesPartitions)
}

func sweepMakesPartitions(t *testing.T, dsn string) {
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	day := 24 * time.Hour
	now, soon, later := keyOf(time.Now(), "now"), keyOf(time.Now().Add(2*day), "soon"), keyOf(time.Now().Add(30*day), "later")
	execute(t, s, now, soon, later, "hash")
	if in := partitionOf(t, pool, now); in != "idempotency_records_default" {
		t.Errorf("before: in %s", in)
	}
	wantSwept(t, s, 0)
	wantSwept(t, s, 0)
	if n := partitions(t, pool); n != 2+8 {
		t.Errorf("%d partitions, want two, today's and seven more", n)
	}
	for key, want := range map[string]string{
		now:   "idempotency_records" + today().Format("_2006010215"),
		soon:  "idempotency_records" + today().Add(2*day).Format("_2006010215"),
		later: "idempotency_records_default",
		"hash": map[bool]string{true: "idempotency_records_hashed", false: "idempotency_records_default"}[func() bool {
			id := request("hash", "a").ID()
			return id[0] >= 4
		}()],
	} {
		if in := partitionOf(t, pool, key); in != want {
			t.Errorf("%s is in %s, want %s", key, in, want)
		}
		wantReplay(t, s, key)
		wantReplay(t, newStore(t, pool), key)
	}
	var compressed int
	err := pool.QueryRow(t.Context(), `select count(distinct attcompression) from pg_attribute join pg_inherits on inhrelid = attrelid
		where inhparent = 'idempotency_records'::regclass and attname = 'body'`).Scan(&compressed)
	if err != nil || compressed != 1 {
		t.Errorf("bodies are compressed in %d ways, %v", compressed, err)
	}
}

// Migrate makes them at once, also on replicas that start together.
//
// Covers STO-22.
func TestMigratePartitioned(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 5 })
	var replicas sync.WaitGroup
	for range 5 {
		replicas.Go(func() {
			if err := pgxstore.Migrate(t.Context(), pool, daily); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()
	newStore(t, pool, daily)
	if n := partitions(t, pool); n != 2+8 {
		t.Errorf("%d partitions", n)
	}
	if _, err := pool.Exec(t.Context(), "create table other (like idempotency_records including all)"); err != nil {
		t.Fatal(err)
	}
	if err := pgxstore.Migrate(t.Context(), pool, daily, pgxstore.WithTable("other")); err == nil || !strings.Contains(err.Error(), "docs/migrations.md") {
		t.Errorf("on a plain table: %v", err)
	}
}

// A plain table is converted as docs/migrations.md says, and back, while a store is
// at work: its records stay known.
func TestConvertTable(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newDatabase(t), func(cfg *pgxpool.Config) { cfg.MaxConns = 1 })
	s := newStore(t, pool)
	keys := []string{keyOf(time.Now(), "now"), keyOf(time.Now().Add(-72*time.Hour), "old")}
	for i := range 10 {
		keys = append(keys, fmt.Sprint("hash-", i))
	}
	execute(t, s, keys...)
	convert := func(file string) {
		sql, err := os.ReadFile("testdata/" + file)
		if err == nil {
			_, err = pool.Exec(t.Context(), strings.Replace(string(sql), " TO app;", " TO public;", 1))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	convert("partition.sql")
	for _, s := range []*pgxstore.Store{s, newStore(t, pool)} {
		for _, key := range keys {
			wantReplay(t, s, key)
		}
	}
	if err := pgxstore.Migrate(t.Context(), pool, daily); err != nil {
		t.Fatal(err)
	}
	if n := partitions(t, pool); n != 2+8 {
		t.Errorf("%d partitions", n)
	}
	for key, want := range map[string]string{
		keys[0]: "idempotency_records" + today().Format("_2006010215"),
		keys[1]: "idempotency_records_default",
		keys[2]: "idempotency_records_hashed",
	} {
		if in := partitionOf(t, pool, key); in != want {
			t.Errorf("%s is in %s, want %s", key, in, want)
		}
		wantReplay(t, s, key)
	}
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	execute(t, s, keys...) // which was there before
	wantSwept(t, newStore(t, pool, daily), 0)

	convert("unpartition.sql")
	for _, s := range []*pgxstore.Store{s, newStore(t, pool)} {
		for _, key := range keys {
			wantReplay(t, s, key)
		}
		wantSwept(t, s, 0)
	}
	convert("partition.sql") // there and back as often as one likes
}

// A sweeper that is not told how wide partitions are makes them as wide as they
// are, such as one of another program.
func TestSweepKeepsTheWidth(t *testing.T) {
	t.Parallel()
	pool := newPool(t, testenv.Postgres(t))
	if err := pgxstore.Migrate(t.Context(), pool, pgxstore.WithPartitions(time.Hour)); err != nil {
		t.Fatal(err)
	}
	bounds := func() (all []string) {
		rows, err := pool.Query(t.Context(), "select pg_get_expr(relpartbound, oid) from pg_class where relispartition and relkind = 'r' order by 1")
		if err != nil {
			t.Fatal(err)
		}
		all, err = pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	made := bounds()
	newest := "idempotency_records" + time.Now().UTC().Truncate(time.Hour).Add(6*time.Hour).Format("_2006010215")
	if _, err := pool.Exec(t.Context(), "drop table "+newest); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, newStore(t, pool), 0)
	swept := bounds()
	for _, bound := range made {
		if !slices.Contains(swept, bound) {
			t.Errorf("%s is not in %q", bound, swept)
		}
	}
	if len(swept) > len(made)+1 { // an hour may have passed
		t.Errorf("%q\nwere %q", swept, made)
	}
}

// After a week without a sweep the records of today are in the default partition.
// Where they are many they stay there, and it goes on with tomorrow.
func TestSweepAfterALongPause(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newPartitioned(t))
	s := newStore(t, pool, pgxstore.WithSweepBatch(2, 0))
	var keys []string
	for i := range 3 {
		keys = append(keys, keyOf(time.Now(), fmt.Sprint(i)))
	}
	execute(t, s, keys...)
	wantSwept(t, s, 0)
	if n := partitions(t, pool); n != 2+7 {
		t.Errorf("%d partitions, want none for today", n)
	}
	execute(t, s, keyOf(time.Now(), "next"))
	for _, key := range keys {
		wantReplay(t, s, key)
	}
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 4)
	wantSwept(t, s, 0)
	if n := partitions(t, pool); n != 2+8 {
		t.Errorf("%d partitions once the records have expired, want today's too", n)
	}
}

// A partition is dropped with its records when the last one has expired, and not
// before: not while a record lives that was completed late, nor the claim of a
// lease.
//
// Covers CON-14.
func TestSweepDropsPartition(t *testing.T) {
	t.Parallel()
	onServers(t, sweepDropsPartition)
}

func sweepDropsPartition(t *testing.T, dsn string) {
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	key := yesterday(t, pool)
	second, claimed := keyOf(today().Add(-2*time.Hour), "second"), keyOf(today().Add(-3*time.Hour), "claimed")
	execute(t, s, key, second)
	wantSwept(t, s, 0)
	wantReplay(t, s, key)
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	execute(t, s, second) // again
	wantSwept(t, s, 0)
	wantReplay(t, s, second)
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	lease := request(claimed, "a")
	lease.Lease = time.Minute
	if _, err := s.AcquireLease(t.Context(), lease, idempotency.LeaseToken{1}); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 0)
	if err := s.CompleteLease(t.Context(), lease, idempotency.LeaseToken{1}, created("k")); err != nil {
		t.Errorf("complete after a sweep: %v", err)
	}
	wantSwept(t, s, 0)
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 3)
	if n := partitions(t, pool); n != 2+8 {
		t.Errorf("%d partitions, want none for yesterday", n)
	}
	execute(t, s, key) // whose partition has gone
	wantReplay(t, s, key)
	if in := partitionOf(t, pool, key); in != "idempotency_records_default" {
		t.Errorf("in %s", in)
	}
	if n := effects(t, pool, key); n != 2 {
		t.Errorf("%d effects", n)
	}
}

// Where the retentions are so different that one record would keep all others of
// its partition for long, these are deleted one by one.
func TestSweepMixedRetentions(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newPartitioned(t))
	s := newStore(t, pool)
	key, long := yesterday(t, pool), request(keyOf(today().Add(-time.Hour), "long"), "a")
	execute(t, s, key)
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	long.Retention = 49 * time.Hour
	if _, err := s.Execute(t.Context(), long, pay("long")); err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 1)
	wantReplay(t, s, long.Key)
}

// A handler that runs for long, and so keeps its lock on the table, keeps neither
// other requests from running nor a partition from being emptied. It is dropped
// when the handler has ended.
//
// Covers EXP-09.
func TestDropBesideLongHandler(t *testing.T) {
	t.Parallel()
	onServers(t, dropBesideLongHandler)
}

func dropBesideLongHandler(t *testing.T, dsn string) {
	pool := newPool(t, dsn)
	s, other := newStore(t, newPool(t, dsn)), newStore(t, pool)
	old := yesterday(t, pool)
	execute(t, s, old)
	wantSwept(t, s, 0)
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	execute(t, s, keyOf(time.Now(), "before"))
	before := partitions(t, pool)
	var next atomic.Int64
	for range 7 { // until plans would be kept
		execute(t, s, keyOf(time.Now(), fmt.Sprint(next.Add(1))))
	}
	key := keyOf(time.Now(), "long")
	_, err := s.Execute(t.Context(), request(key, "a"), answering(key, func(ctx context.Context, tx pgx.Tx) error {
		var locked string
		err := tx.QueryRow(ctx, `select string_agg(relation::regclass::text, ' ' order by relation::regclass::text) from pg_locks
			where pid = pg_backend_pid() and relation in (select inhrelid from pg_inherits)`).Scan(&locked)
		if want := "idempotency_records" + today().Format("_2006010215") + " idempotency_records" + today().Format("_2006010215") + "_pkey"; err != nil ||
			!strings.HasPrefix(locked, want[:len(want)-5]) || strings.Contains(locked, "_default") {
			t.Errorf("the handler locks %q, %v", locked, err)
		}
		swept := make(chan struct{})
		go func() {
			defer close(swept)
			wantSwept(t, s, 1)
		}()
		for done := false; !done; {
			select {
			case <-swept:
				done = true
			default:
			}
			execute(t, other, keyOf(time.Now(), fmt.Sprint(next.Add(1))))
		}
		if n := partitions(t, pool); n != before {
			t.Errorf("%d partitions, want %d", n, before)
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	wantReplay(t, s, key)
	wantSwept(t, s, 0)
	if n := partitions(t, pool); n != before-1 {
		t.Errorf("%d partitions, want %d", n, before-1)
	}
}

// A record that is renewed between the look at its partition and the lock on it
// keeps the partition, whether it was to be dropped or emptied.
//
// Covers CON-14.
func TestRecordRenewedBeforeDrop(t *testing.T) {
	t.Parallel()
	dsn := newPartitioned(t)
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	key := yesterday(t, pool)
	wantSwept(t, s, 0) // drops the partition, which has no record
	makePartition(t, pool, 1, "idempotency_records")
	execute(t, s, key)
	p := newProxy(t, dsn)
	sweeper := newStore(t, newPool(t, p.dsn))
	sweep := func(before string) {
		if _, err := pool.Exec(t.Context(), expire); err != nil {
			t.Fatal(err)
		}
		p.before(before, func() { execute(t, s, key) })
		wantSwept(t, sweeper, 0)
		wantReplay(t, s, key)
	}
	sweep("set local statement_timeout")
	long := keyOf(time.Now(), "long") // keeps the partition from being dropped
	_, err := s.Execute(t.Context(), request(long, "a"), answering(long, func(context.Context, pgx.Tx) error {
		sweep("rollback to savepoint")
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	if in := partitionOf(t, pool, key); in != "idempotency_records_1" {
		t.Errorf("in %q", in)
	}
}

// A request whose key is of the time of an expired partition keeps it as it is.
func TestDropBesideItsOwnRequest(t *testing.T) {
	t.Parallel()
	dsn := newPartitioned(t)
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	key := yesterday(t, pool)
	execute(t, s, key)
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	_, err := s.Execute(t.Context(), request(key, "a"), answering(key, func(context.Context, pgx.Tx) error {
		wantSwept(t, s, 0)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 0)
	wantReplay(t, newStore(t, pool), key)
}

// A long handler that keeps the default partition locked delays the partitions of
// the time ahead, which is an error when they are needed, and no request.
func TestMakeBesideLongHandler(t *testing.T) {
	t.Parallel()
	onServers(t, makeBesideLongHandler)
}

func makeBesideLongHandler(t *testing.T, dsn string) {
	s := newStore(t, newPool(t, dsn))
	old, now := keyOf(today().Add(-72*time.Hour), "old"), keyOf(time.Now(), "beside")
	_, err := s.Execute(t.Context(), request(old, "a"), answering(old, func(context.Context, pgx.Tx) error {
		if _, err := s.Sweep(t.Context()); !errors.Is(err, idempotency.ErrUnavailable) || !strings.Contains(err.Error(), "WithSweepWait") {
			t.Errorf("sweep: %v", err)
		}
		execute(t, s, now)
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	wantSwept(t, s, 0)
	wantReplay(t, s, old)
	wantReplay(t, s, now)
	if n := partitions(t, newPool(t, dsn)); n != 2+8 {
		t.Errorf("%d partitions", n)
	}
}

// A sweeper that dies at any of its steps leaves nothing that the next one
// stumbles over.
//
// Covers CRA-01.
func TestSweeperDies(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"create table", "release savepoint", "commit"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			dsn := newPartitioned(t)
			pool := newPool(t, dsn)
			s := newStore(t, pool)
			now, old := keyOf(time.Now(), "now"), yesterday(t, pool)
			execute(t, s, now, old)
			p := newProxy(t, dsn)
			dying := newStore(t, newPool(t, p.dsn))
			p.on(at, loseAnswer)
			if _, err := dying.Sweep(t.Context()); err == nil {
				t.Error("the sweep that died has no error")
			}
			wantReplay(t, s, now)
			wantReplay(t, s, old)
			for partitions(t, pool) < 2+9 { // the server may not have noticed yet
				wantSwept(t, s, 0)
			}
			var tables int
			if err := pool.QueryRow(t.Context(), "select count(*) from pg_class where relkind = 'r' and relname like 'idempotency_records%'").Scan(&tables); err != nil || tables != 2+9 {
				t.Errorf("%d tables, %v", tables, err)
			}
			wantReplay(t, s, now)
			wantReplay(t, s, old)
		})
	}
}

// Of sweepers at the same time, in sessions of any time zone, each record is
// counted by one, and each partition is made once.
//
// Covers EXP-08.
func TestSweepersOfPartitionsTogether(t *testing.T) {
	t.Parallel()
	dsn := newPartitioned(t)
	pool := newPool(t, dsn)
	s := newStore(t, pool)
	const days, each = 3, 5
	for day := range days {
		makePartition(t, pool, 2+day, "idempotency_records")
		for i := range each {
			execute(t, s, keyOf(today().Add(time.Duration(-2-day)*24*time.Hour), fmt.Sprint(i)))
		}
	}
	if _, err := pool.Exec(t.Context(), expire); err != nil {
		t.Fatal(err)
	}
	var swept atomic.Int64
	var wg sync.WaitGroup
	for _, zone := range []string{"UTC", "Pacific/Kiritimati", "America/Los_Angeles", "Asia/Kolkata"} {
		other := newStore(t, newPool(t, dsn+"&datestyle=SQL,DMY&timezone="+zone))
		wg.Go(func() {
			for range 3 {
				n, err := other.Sweep(t.Context())
				if err != nil {
					t.Error(err)
				}
				swept.Add(n)
			}
		})
	}
	wg.Wait()
	if n := swept.Load(); n != days*each {
		t.Errorf("%d records swept, want %d", n, days*each)
	}
	if n := partitions(t, pool); n != 2+8 {
		t.Errorf("%d partitions", n)
	}
	execute(t, s, keyOf(today(), "first"))
	if in, want := partitionOf(t, pool, keyOf(today(), "first")), "idempotency_records"+today().Format("_2006010215"); in != want {
		t.Errorf("the first millisecond of today is in %s, want %s", in, want)
	}
}

// A key has one effect, whichever side of a partition's bound it is on, and while
// partitions are made, dropped and swept.
func TestOneEffectAcrossPartitions(t *testing.T) {
	t.Parallel()
	dsn := newPartitioned(t)
	pool := newPool(t, dsn)
	makePartition(t, pool, 2, "idempotency_records")
	few := func(cfg *pgxpool.Config) { cfg.MaxConns = 8 }
	stores := []*pgxstore.Store{newStore(t, newPool(t, dsn, few)), newStore(t, newPool(t, dsn, few))}
	var keys []string
	for day := range 4 {
		bound := today().Add(time.Duration(1-day) * 24 * time.Hour)
		keys = append(keys, keyOf(bound.Add(-time.Millisecond), "last"), keyOf(bound, "first"), fmt.Sprint("hash", day))
	}
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		for range 5 {
			if _, err := stores[0].Sweep(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}()
	const clients = 32
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for _, key := range keys {
				settled(t, stores[i%len(stores)], request(key, "a"), pay(key))
			}
		})
	}
	wg.Wait()
	<-swept
	listed := make(map[string]int)
	for e, err := range stores[0].List(t.Context(), idempotency.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed[e.Key]++
	}
	for _, key := range keys {
		if n := listed[key]; n != 1 {
			t.Errorf("%s is listed %d times", key, n)
		}
		if n := effects(t, pool, key); n != 1 {
			t.Errorf("%s: %d effects", key, n)
		}
		wantReplay(t, stores[0], key)
	}
}

// New says what is wrong with partitions, before a request finds out.
func TestNewRefusesPartitions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql, want string
		opts      []pgxstore.Option
	}{
		"NoDefault":   {"drop table idempotency_records_default", "no default partition", nil},
		"Unlogged":    {"drop table idempotency_records_default; create unlogged table idempotency_records_default partition of idempotency_records default", "UNLOGGED", nil},
		"Subdivided":  {"drop table idempotency_records_default; create table idempotency_records_default partition of idempotency_records default partition by range (id)", "partitioned itself", nil},
		"Plain":       {"create table plain (like idempotency_records including all)", "not partitioned", []pgxstore.Option{pgxstore.WithTable("plain"), daily}},
		"LongName":    {"alter table idempotency_records rename to " + strings.Repeat("a", 53), "more than 52 bytes", []pgxstore.Option{pgxstore.WithTable(strings.Repeat("a", 53))}},
		"HalfAnHour":  {"select", "whole hours", []pgxstore.Option{pgxstore.WithPartitions(90 * time.Minute)}},
		"NoWait":      {"select", "WithSweepWait", []pgxstore.Option{pgxstore.WithSweepWait(0)}},
		"NoLocks":     {"create schema broken; create function broken.pg_try_advisory_xact_lock(bigint) returns boolean language sql as 'select true'", "advisory locks do not work", nil},
		"NoSweepable": {"drop index idempotency_records_expires_at", "no index on (expires_at)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newPartitioned(t)
			if _, err := newPool(t, dsn).Exec(t.Context(), c.sql); err != nil {
				t.Fatal(err)
			}
			if name == "NoLocks" {
				dsn += "&search_path=broken,public,pg_catalog"
			}
			if _, err := pgxstore.New(t.Context(), newPool(t, dsn), c.opts...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error about %q", err, c.want)
			}
		})
	}
}

// A sweep says so when the default partition, or all of them, were taken away from
// a store that is open.
func TestSweepWithoutDefaultPartition(t *testing.T) {
	t.Parallel()
	pool := newPool(t, newPartitioned(t))
	s := newStore(t, pool, daily)
	for _, which := range []string{"bound = 'DEFAULT'", "true"} {
		if _, err := pool.Exec(t.Context(), `do $$ declare p regclass; begin
			for p in select oid from (select oid, pg_get_expr(relpartbound, oid) as bound from pg_class where relispartition and relkind = 'r') as parts where `+which+`
			loop execute 'drop table ' || p; end loop; end $$`); err != nil {
			t.Fatal(err)
		}
		if n, err := s.Sweep(t.Context()); n != 0 || err == nil || !strings.Contains(err.Error(), "no default partition") {
			t.Errorf("%s: %d, %v", which, n, err)
		}
	}
}

// A user with the rights that requests need cannot keep partitions up, and is told
// who can.
func TestSweepByAnotherUser(t *testing.T) {
	t.Parallel()
	dsn := newPartitioned(t)
	admin := newPool(t, dsn)
	role := "idem_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec(t.Context(), "create role "+role+" login; grant select, insert, update, delete on idempotency_records to "+role+"; grant insert on effects to "+role); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.Background(), "drop owned by "+role+"; drop role "+role); err != nil {
			t.Error(err)
		}
	})
	pool := newPool(t, dsn+"&user="+role)
	s := newStore(t, pool)
	key := keyOf(time.Now(), "k")
	execute(t, s, key)
	if _, err := s.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "does not own the partitioned table") {
		t.Errorf("sweep: %v", err)
	}
	wantSwept(t, newStore(t, admin), 0)
	wantReplay(t, s, key)
	execute(t, s, keyOf(time.Now(), "in its partition"))
	pool.Close() // the role goes
}
