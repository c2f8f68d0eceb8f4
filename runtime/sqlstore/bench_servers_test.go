package sqlstore_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/sqlstore"
)

// slice is how long one side runs before it is the other's turn.
const slice = 150 * time.Millisecond

// business is an INSERT and an UPDATE of one of 10,000 rows, answered with a
// body of 512 bytes.
type business struct {
	db    *sql.DB
	store *sqlstore.Store
	srv   server
	calls atomic.Int64
}

func newBusiness(b *testing.B, srv server, db *sql.DB) *business {
	b.Helper()
	const conns = 32
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	var rows []string
	for i := range 10_000 {
		rows = append(rows, fmt.Sprintf("(%d, 0)", i))
	}
	for _, query := range []string{
		"CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
		"INSERT INTO account VALUES " + strings.Join(rows, ", "),
	} {
		if _, err := db.ExecContext(b.Context(), query); err != nil {
			b.Fatal(err)
		}
	}
	return &business{db: db, store: srv.on(b, db), srv: srv}
}

func (x *business) work(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
	resp, err := x.srv.work("payment of 10.00 EUR")(ctx, tx)
	if err != nil {
		return resp, err
	}
	_, err = tx.ExecContext(ctx, "UPDATE account SET balance = balance - 5 WHERE id = "+x.srv.label, x.calls.Load()*7919%10_000)
	return created(strings.Repeat("x", 512)), err
}

// id is the parameter for a record's id.
func (x *business) id(req idempotency.Request) any {
	id := req.ID()
	if x.srv.driver == "mysql" {
		return id[:]
	}
	return fmt.Sprintf("%x", id[:]) // as PostgreSQL reads a uuid
}

func (x *business) bare(ctx context.Context) error {
	x.calls.Add(1)
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := x.work(ctx, tx); err != nil {
		_ = tx.Rollback()
		return err
	}
	return tx.Commit()
}

func (x *business) first(ctx context.Context) error {
	n := x.calls.Add(1)
	hex := fmt.Sprintf("%012x", time.Now().UnixMilli())
	_, err := x.store.Execute(ctx, request(fmt.Sprintf("%s-%s-7%03x-8%03x-%012x", hex[:8], hex[8:], n>>12&0xfff, n&0xfff, n)), x.work)
	return err
}

// leased is a first request under a lease, whose handler runs the bare
// transaction.
func (x *business) leased(ctx context.Context) error {
	req := request(fmt.Sprint("leased-", x.calls.Add(1)))
	req.Lease = 30 * time.Second
	_, err := idempotency.Leases(x.store, time.Minute).Execute(ctx, req, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
		return created(strings.Repeat("x", 512)), x.bare(ctx)
	})
	return err
}

// BenchmarkServers compares, in slices that take turns, a first request, and one
// under a lease, with its bare transaction, and a replay with a SELECT by primary
// key. It reports the median of the slices' ratios.
//
//	go run ./internal/testenv/testpg -durable -- go test -run '^$' -bench Servers -benchtime 20x ./sqlstore
func BenchmarkServers(b *testing.B) {
	for _, srv := range servers() {
		b.Run(srv.name, func(b *testing.B) {
			var db *sql.DB
			if srv.driver == "mysql" {
				db = openMySQL(b, testenv.OwnMariaDB(b).DSN, map[string]string{"interpolateParams": "true"}, 0)
				fillMySQL(b, db)
			} else {
				db, _ = srv.pool(b)
			}
			x := newBusiness(b, srv, db)
			for _, clients := range []int{1, 8} {
				b.Run(fmt.Sprintf("First/%d", clients), func(b *testing.B) { compare(b, clients, x.bare, x.first) })
				b.Run(fmt.Sprintf("Lease/%d", clients), func(b *testing.B) { compare(b, clients, x.bare, x.leased) })
			}
			req := request("replayed")
			if _, err := x.store.Execute(b.Context(), req, x.work); err != nil {
				b.Fatal(err)
			}
			read := func(ctx context.Context) error {
				var body []byte
				return db.QueryRowContext(ctx, "SELECT body FROM idempotency_records WHERE id = "+srv.label, x.id(req)).Scan(&body)
			}
			replay := func(ctx context.Context) error {
				_, err := x.store.Execute(ctx, req, x.work)
				return err
			}
			b.Run("Replay/1", func(b *testing.B) { compare(b, 1, read, replay) })
		})
	}
}

// compare runs base and other in turns and reports rate(other)/rate(base).
func compare(b *testing.B, clients int, base, other func(context.Context) error) {
	b.Helper()
	var ratios []float64
	rate(b, clients, base)
	rate(b, clients, other)
	for b.Loop() {
		r := rate(b, clients, base)
		ratios = append(ratios, rate(b, clients, other)/r)
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}

// rate returns how often clients call f in a second.
func rate(b *testing.B, clients int, f func(context.Context) error) float64 {
	b.Helper()
	var calls atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for time.Since(start) < slice {
				if err := f(b.Context()); err != nil {
					b.Error(err)
					return
				}
				calls.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(calls.Load()) / time.Since(start).Seconds()
}
