package pgxstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/pgxstore"
)

// The benchmarks compare two sides in one run, in slices that take turns, and
// report the median of the slices' ratios: absolute numbers of one machine say
// nothing about another. An iteration is one slice of each side.
//
//	go run ./internal/testenv/testpg -durable -- go test -run '^$' -bench . -benchtime 20x ./pgxstore

// slice is how long one side runs before it is the other's turn.
const slice = 150 * time.Millisecond

// side is one of the things compared: called again and again by each client.
type side func(ctx context.Context) error

// compare runs base and other in turns and reports rate(other)/rate(base).
func compare(b *testing.B, clients int, metric string, base, other side) {
	var ratios []float64
	rate(b, clients, base)
	rate(b, clients, other)
	for b.Loop() {
		r := rate(b, clients, base)
		ratios = append(ratios, rate(b, clients, other)/r)
	}
	b.ReportMetric(median(ratios), metric)
}

// rate returns how often clients call s in a second.
func rate(b *testing.B, clients int, s side) float64 {
	var calls atomic.Int64
	start := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(b.Context()) // as a server's requests have it
			defer cancel()
			for time.Since(start) < slice {
				if err := s(ctx); err != nil {
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

func median[T float64 | time.Duration](x []T) T {
	slices.Sort(x)
	return x[len(x)/2]
}

// bench is a database with a business in it.
type bench struct {
	pool  *pgxpool.Pool
	store *pgxstore.Store
	keys  atomic.Int64
}

// answer has a body of 513 bytes and headers of 77.
var answer = idempotency.Response{
	Status: 201,
	Header: http.Header{"Content-Type": {"application/json"}, "Location": {"/payments/0190f2b5-7b1e-7c3a-8f00"}},
	Body:   []byte(`{"id":"0190f2b5","note":"` + strings.Repeat("abcdefghijklmnop", 30) + `____"}`),
}

func newBench(b *testing.B, dsn string, conns int) *bench {
	b.Helper()
	pool := newPool(b, dsn, func(cfg *pgxpool.Config) { cfg.MaxConns, cfg.MinConns = int32(conns), int32(conns) })
	return &bench{pool: pool, store: newStore(b, pool)}
}

// newBusiness returns the connection string of a database with accounts and
// payments.
func newBusiness(b *testing.B) string {
	b.Helper()
	dsn := newDatabase(b)
	_, err := newPool(b, dsn).Exec(b.Context(), `create table payments (id bigserial primary key, account int not null, amount bigint not null);
		create table accounts (id int primary key, balance bigint not null);
		insert into accounts select i, 0 from generate_series(1, 100000) i`)
	if err != nil {
		b.Fatal(err)
	}
	return dsn
}

// pay is the business: an INSERT and an UPDATE.
func (x *bench) pay(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
	n := x.keys.Add(1)
	if _, err := tx.Exec(ctx, "insert into payments (account, amount) values ($1, 5)", n%100000+1); err != nil {
		return idempotency.Response{}, err
	}
	_, err := tx.Exec(ctx, "update accounts set balance = balance - 5 where id = $1", n*7919%100000+1)
	return answer, err
}

// bare is the business in a transaction.
func (x *bench) bare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, x.pool, func(tx pgx.Tx) error {
		_, err := x.pay(ctx, tx)
		return err
	})
}

// first is the business under a new key.
func (x *bench) first(ctx context.Context) error {
	n := x.keys.Add(1)
	key := fmt.Sprintf("%012x-7%03x-8%03x-%012x", time.Now().UnixMilli(), n>>12&0xfff, n&0xfff, n)
	_, err := x.store.Execute(ctx, request(key[:8]+"-"+key[8:], "a"), x.pay)
	return err
}

// BenchmarkFirst compares a first request with its bare transaction.
func BenchmarkFirst(b *testing.B) {
	dsn := newBusiness(b)
	for _, network := range []time.Duration{0, 500 * time.Microsecond} {
		through := dsn
		if network > 0 {
			through = newDelay(b, dsn, network)
		}
		x := newBench(b, through, 33)
		for _, clients := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("network=%v/clients=%d", network, clients), func(b *testing.B) {
				compare(b, clients, "x-bare", x.bare, x.first)
			})
		}
	}
}

// BenchmarkLease compares a first request under a lease, whose handler runs the
// transaction by itself, with that transaction.
func BenchmarkLease(b *testing.B) {
	dsn := newBusiness(b)
	for _, network := range []time.Duration{0, 500 * time.Microsecond} {
		through := dsn
		if network > 0 {
			through = newDelay(b, dsn, network)
		}
		x := newBench(b, through, 33)
		leases := idempotency.Leases(x.store, time.Minute)
		leased := func(ctx context.Context) error {
			req := request(fmt.Sprint("leased-", x.keys.Add(1)), "a")
			req.Lease = 30 * time.Second
			_, err := leases.Execute(ctx, req, func(ctx context.Context, _ *idempotency.Lease) (idempotency.Response, error) {
				return answer, x.bare(ctx)
			})
			return err
		}
		for _, clients := range []int{1, 8, 32} {
			b.Run(fmt.Sprintf("network=%v/clients=%d", network, clients), func(b *testing.B) {
				compare(b, clients, "x-bare", x.bare, leased)
			})
		}
	}
}

// BenchmarkReplay compares a replay with a plain SELECT of the same columns by
// primary key: of one record, which the store recalls, and of so many in turn
// that it recalls few.
func BenchmarkReplay(b *testing.B) {
	x := newBench(b, newBusiness(b), 20)
	var turn atomic.Int64
	for _, records := range []int64{1, 20_000} {
		next := func() idempotency.Request { return request(fmt.Sprint("replayed-", turn.Add(1)%records), "a") }
		replay := func(ctx context.Context) error {
			_, err := x.store.Execute(ctx, next(), x.pay)
			return err
		}
		for range records {
			if err := replay(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		read := func(ctx context.Context) error {
			var status int
			var header, body []byte
			return x.pool.QueryRow(ctx, "select status, header, body from idempotency_records where id = $1", next().ID()).Scan(&status, &header, &body)
		}
		for _, clients := range []int{1, 8} {
			b.Run(fmt.Sprintf("records=%d/clients=%d", records, clients), func(b *testing.B) {
				compare(b, clients, "x-select", read, replay)
			})
		}
	}
}

// BenchmarkWAL measures what a first request writes to the log beyond its bare
// transaction.
func BenchmarkWAL(b *testing.B) {
	x := newBench(b, newBusiness(b), 1)
	const requests = 500
	written := func(s side) (n int64) {
		const position = "select (pg_current_wal_insert_lsn() - '0/0')::bigint"
		var before, after int64
		err := x.pool.QueryRow(b.Context(), position).Scan(&before)
		for range requests {
			err = errors.Join(err, s(b.Context()))
		}
		err = errors.Join(err, x.pool.QueryRow(b.Context(), position).Scan(&after))
		if err != nil {
			b.Fatal(err)
		}
		return (after - before) / requests
	}
	written(x.bare) // touches pages for the first time after a checkpoint
	written(x.first)
	var added []float64
	for b.Loop() {
		bare := written(x.bare)
		added = append(added, float64(written(x.first)-bare))
	}
	header, body, err := idempotency.EncodeAnswer(b.Context(), nil, idempotency.Request{}, answer)
	if err != nil {
		b.Fatal(err)
	}
	size := len(header) + len(body)
	b.ReportMetric(median(added), "B/req")
	b.ReportMetric(median(added)-float64(size), "B/req-beyond-answer")
}

// BenchmarkBystander compares the latency of other requests, on a pool of 10
// with one request that takes a second, with and without 30 duplicates of it
// that each come again after 100 ms.
func BenchmarkBystander(b *testing.B) {
	x := newBench(b, newBusiness(b), 10)
	var ratios []float64
	for b.Loop() {
		alone := x.bystander(b, 0)
		ratios = append(ratios, float64(x.bystander(b, 30))/float64(alone))
	}
	b.ReportMetric(median(ratios), "x-alone")
}

// bystander returns the median latency of requests beside a slow one and its
// duplicates.
func (x *bench) bystander(b *testing.B, duplicates int) time.Duration {
	var latencies []time.Duration
	key := fmt.Sprint("slow-", x.keys.Add(1))
	_, err := x.store.Execute(b.Context(), request(key, "a"), func(ctx context.Context, tx pgx.Tx) (idempotency.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range duplicates {
			wg.Go(func() {
				for ctx.Err() == nil {
					_, err := x.store.Execute(context.WithoutCancel(ctx), request(key, "a"), x.pay)
					if !errors.Is(err, idempotency.ErrInFlight) {
						b.Errorf("duplicate: %v", err)
						return
					}
					select {
					case <-time.After(100 * time.Millisecond):
					case <-ctx.Done():
					}
				}
			})
		}
		for ctx.Err() == nil {
			start := time.Now()
			if err := x.first(context.WithoutCancel(ctx)); err != nil {
				return idempotency.Response{}, err
			}
			latencies = append(latencies, time.Since(start))
			time.Sleep(time.Millisecond)
		}
		wg.Wait()
		return x.pay(context.WithoutCancel(ctx), tx)
	})
	if err != nil {
		b.Fatal(err)
	}
	return median(latencies)
}

// newDelay starts a proxy that delays what it passes on, in each direction by
// half of roundTrip, and returns the connection string that leads through it.
func newDelay(b *testing.B, dsn string, roundTrip time.Duration) string {
	b.Helper()
	p := newProxy(b, dsn)
	p.link = func(client, server net.Conn) {
		go delay(server, client, roundTrip/2)
		go delay(client, server, roundTrip/2)
	}
	return p.dsn
}

// delay copies from src to dst; each piece arrives d later.
func delay(dst, src net.Conn, d time.Duration) {
	type piece struct {
		due  time.Time
		data []byte
	}
	pieces := make(chan piece, 1024)
	go func() {
		defer dst.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			if _, err := io.Copy(dst, bytes.NewReader(p.data)); err != nil {
				return
			}
		}
	}()
	defer close(pieces)
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			pieces <- piece{time.Now().Add(d), bytes.Clone(buf[:n])}
		}
		if err != nil {
			return
		}
	}
}
