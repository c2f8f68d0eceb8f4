package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/examples/outbox/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// TestMain serves where a test has started this binary as a server.
func TestMain(m *testing.M) { e2e.Main(m, serveChild) }

var quiet = slog.New(slog.DiscardHandler)

// serveChild is run with a store that stops where the test wants it to.
func serveChild(args []string) error {
	dsn, mails, workers := args[0], args[1], args[2]
	ctx := context.Background()
	n, err := strconv.Atoi(workers)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return err
	}
	store, err := prepare(ctx, pool)
	if err != nil {
		return err
	}
	jobs, err := newJobs(pool, sendTo(mails), n, quiet)
	if err != nil {
		return err
	}
	if n > 0 {
		if err := jobs.Start(ctx); err != nil {
			return err
		}
	}
	return serve(ctx, "127.0.0.1:0", newHandler(service{jobs: jobs}, e2e.Stall(idempotency.Store[pgx.Tx](store)), quiet))
}

// shop is the example on a fresh database, with a file for its e-mails.
type shop struct {
	dsn   string
	mails string
}

func openShop(t *testing.T) shop {
	t.Helper()
	return shop{dsn: e2e.Postgres(t), mails: filepath.Join(t.TempDir(), "mails.jsonl")}
}

// start starts a server that stops at point, with so many workers.
func (s shop) start(t *testing.T, point e2e.Point, workers int) *e2e.Process {
	t.Helper()
	return e2e.Start(t, point, s.dsn, s.mails, strconv.Itoa(workers))
}

// books is what the database holds.
type books struct{ Orders, Jobs, Done, Stored int }

func (s shop) books(t *testing.T) (b books) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	err = conn.QueryRow(t.Context(), `SELECT
		(SELECT count(*) FROM orders),
		(SELECT count(*) FROM river_job WHERE kind = 'order_confirmation'),
		(SELECT count(*) FROM river_job WHERE kind = 'order_confirmation' AND state = 'completed'),
		(SELECT count(*) FROM idempotency_records)`).Scan(&b.Orders, &b.Jobs, &b.Done, &b.Stored)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// settled waits until all jobs are done, and returns the books.
func (s shop) settled(t *testing.T) (b books) {
	t.Helper()
	e2e.Await(t, "all jobs are done", func() error {
		if b = s.books(t); b.Done != b.Jobs {
			return fmt.Errorf("the database holds %+v", b)
		}
		return nil
	})
	return b
}

// sent returns the e-mails that were sent.
func (s shop) sent(t *testing.T) (mails []mail) {
	t.Helper()
	f, err := os.Open(s.mails)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var m mail
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		mails = append(mails, m)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return mails
}

// check waits for the workers, and says what is wrong unless there are n orders,
// each with one stored answer, one job and one e-mail.
func (s shop) check(t *testing.T, n int) {
	t.Helper()
	if b, want := s.settled(t), (books{n, n, n, n}); b != want {
		t.Errorf("the database holds %+v, want %+v", b, want)
	}
	mails := s.sent(t)
	ids := map[string]bool{}
	for _, m := range mails {
		ids[m.ID] = true
	}
	if len(mails) != n || len(ids) != n {
		t.Errorf("%d e-mails with %d ids, want %d: %v", len(mails), len(ids), n, mails)
	}
}

// order sends one order.
func order(ctx context.Context, url, key string) (e2e.Answer, error) {
	return e2e.Post(ctx, url+"/orders", key, `{"email":"anna@example.com","item":"lamp"}`)
}

// settle sends the order k1 until it is no longer in flight.
func settle(t *testing.T, url string) e2e.Answer {
	t.Helper()
	return e2e.Settle(t, func(ctx context.Context) (e2e.Answer, error) { return order(ctx, url, "k1") })
}

// The server is killed at each point of an order: neither the row nor the job
// is there, or both are. The retry makes one of each, and one e-mail is sent.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestCrash(t *testing.T) {
	t.Parallel()
	for _, point := range []e2e.Point{e2e.InHandler, e2e.BeforeCommit, e2e.AfterCommit} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			shop := openShop(t)
			server := shop.start(t, point, 0) // it enqueues; the next process sends
			lost := make(chan error, 1)
			go func() {
				_, err := order(t.Context(), server.URL, "k1")
				lost <- err
			}()
			server.AwaitStall(t)
			server.Kill()
			if err := <-lost; err == nil {
				t.Fatal("the first attempt was answered")
			}
			n := 0
			if point == e2e.AfterCommit {
				n = 1
			}
			if b, want := shop.books(t), (books{Orders: n, Jobs: n, Stored: n}); b != want {
				t.Errorf("the killed server left %+v, want %+v", b, want)
			}

			server = shop.start(t, "", 1)
			first := settle(t, server.URL)
			if first.Status != http.StatusCreated || first.Replayed != (point == e2e.AfterCommit) {
				t.Errorf("the retry got %+v", first)
			}
			shop.check(t, 1)
			second := settle(t, server.URL)
			if !second.Replayed || second.Body != first.Body {
				t.Errorf("the replay got %+v, want %q", second, first.Body)
			}
			shop.check(t, 1)
		})
	}
}

// Many send the same order at the same time, and go on until each has its
// answer: one job is enqueued, one e-mail is sent.
// Covers CON-01.
func TestCrowd(t *testing.T) {
	t.Parallel()
	const keys, clients = 10, 16
	shop := openShop(t)
	server := shop.start(t, "", 4)
	answers := make([][clients]e2e.Answer, keys)
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			for key := range keys {
				for {
					a, err := order(t.Context(), server.URL, fmt.Sprint("key-", key))
					if err != nil {
						t.Error(err)
						return
					}
					if a.Status != http.StatusConflict {
						answers[key][client] = a
						break
					}
				}
			}
		})
	}
	wg.Wait()
	for key, got := range answers {
		executed := 0
		for _, a := range got {
			if !a.Replayed {
				executed++
			}
			if a.Status != http.StatusCreated || a.Body != got[0].Body {
				t.Errorf("key %d: %+v, another client got %+v", key, a, got[0])
			}
		}
		if executed != 1 {
			t.Errorf("key %d was executed %d times", key, executed)
		}
	}
	shop.check(t, keys)
}

// wrecked enqueues as the service does, and then fails.
type wrecked struct {
	service
	fail func() error
}

func (w wrecked) CreateOrder(ctx context.Context, tx pgx.Tx, req api.CreateOrderIdempotentRequest) (api.CreateOrderResponseObject, error) {
	if _, err := w.service.CreateOrder(ctx, tx, req); err != nil {
		return nil, err
	}
	return nil, w.fail()
}

// run starts the example in this process, with a handler that serve makes, and
// returns its client of River, which works once it is started.
func (s shop) run(t *testing.T, send mailer) (*river.Client[pgx.Tx], func(api.IdempotentServer[pgx.Tx]) string) {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := prepare(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := newJobs(pool, send, 1, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return jobs, func(handler api.IdempotentServer[pgx.Tx]) string {
		server := httptest.NewUnstartedServer(newHandler(handler, store, quiet))
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		server.Start()
		t.Cleanup(server.Close)
		return server.URL
	}
}

// A handler that fails after it has enqueued leaves no job. The retry makes one.
func TestRollback(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no stock") },
		"panic": func() error { panic("no stock") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shop := openShop(t)
			jobs, serve := shop.run(t, sendTo(shop.mails))
			if a, err := order(t.Context(), serve(wrecked{service{jobs: jobs}, fail}), "k1"); err == nil && a.Status != http.StatusInternalServerError {
				t.Errorf("the failing handler answered %+v", a)
			}
			if b := shop.books(t); b != (books{}) {
				t.Errorf("the failed handler left %+v", b)
			}
			if a := settle(t, serve(service{jobs: jobs})); a.Status != http.StatusCreated || a.Replayed {
				t.Errorf("the retry got %+v", a)
			}
			if b, want := shop.books(t), (books{Orders: 1, Jobs: 1, Stored: 1}); b != want {
				t.Errorf("the retry left %+v, want %+v", b, want)
			}
		})
	}
}

// An order that is refused is an answer without a job, and its replay is too.
func TestRefusedOrder(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	jobs, serve := shop.run(t, sendTo(shop.mails))
	url := serve(service{jobs: jobs})
	for _, replayed := range []bool{false, true} {
		a, err := e2e.Post(t.Context(), url+"/orders", "k1", `{"email":"","item":"lamp"}`)
		if err != nil || a.Status != http.StatusBadRequest || a.Replayed != replayed {
			t.Errorf("%+v, %v", a, err)
		}
	}
	if b, want := shop.books(t), (books{Stored: 1}); b != want {
		t.Errorf("the database holds %+v, want %+v", b, want)
	}
}

// A mail server takes an e-mail and the connection breaks: the worker cannot
// know, and sends it again. Both have one Message-ID.
func TestWorkerSendsAtLeastOnce(t *testing.T) {
	t.Parallel()
	shop := openShop(t)
	var sends int // by the only worker
	jobs, serve := shop.run(t, func(ctx context.Context, m mail) error {
		if err := sendTo(shop.mails)(ctx, m); err != nil {
			return err
		}
		if sends++; sends == 1 {
			return errors.New("the connection broke")
		}
		return nil
	})
	done, unsubscribe := jobs.Subscribe(river.EventKindJobCompleted, river.EventKindJobFailed)
	defer unsubscribe()
	if err := jobs.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := settle(t, serve(service{jobs: jobs})); a.Status != http.StatusCreated {
		t.Fatalf("%+v", a)
	}
	if e := <-done; e.Kind != river.EventKindJobFailed {
		t.Errorf("the first run of the worker ended with %s", e.Kind)
	}
	if e := <-done; e.Kind != river.EventKindJobCompleted || e.Job.State != rivertype.JobStateCompleted {
		t.Errorf("the second run of the worker ended with %s", e.Kind)
	}
	mails := shop.sent(t)
	if len(mails) != 2 || mails[0] != mails[1] {
		t.Errorf("sent %v, want one e-mail twice", mails)
	}
	if b, want := shop.books(t), (books{1, 1, 1, 1}); b != want {
		t.Errorf("the database holds %+v, want %+v", b, want)
	}
	if err := jobs.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}
