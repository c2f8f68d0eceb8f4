package good

import (
	"context"
	"database/sql"
	"net/http"

	"shop/api"
	"shop/db"
	"shop/keys"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
)

type service struct {
	pool     *pgxpool.Pool
	queries  *db.Queries
	orders   *db.Repository
	river    *river.Client[pgx.Tx]
	payments api.IdempotentClient
	stored   func(ctx context.Context) db.DBTX
}

var _ api.IdempotentServer[pgx.Tx] = service{}

type args struct{ Key string }

func (args) Kind() string { return "mail" }

func (s service) CreatePayment(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) (api.CreatePaymentResponseObject, error) {
	// Reads may go anywhere.
	row := s.pool.QueryRow(ctx, "SELECT balance FROM accounts WHERE name = 'update'")
	s.pool.Query(ctx, "WITH a AS (SELECT 1) SELECT * FROM a")
	s.queries.GetOrder(ctx, 1)
	s.river.JobGet(ctx, 1)
	_ = row

	// Writes go through the transaction, by whatever way.
	tx.Exec(ctx, "INSERT INTO payments DEFAULT VALUES")
	queries := s.queries.WithTx(tx)
	queries.InsertOrder(ctx, 1)
	s.queries.WithTx(tx).InsertOrder(ctx, 2)
	db.New(tx).InsertOrder(ctx, 3)
	db.InsertWith(ctx, tx, 4)
	s.orders.SaveIn(ctx, tx, 5)
	s.orders.SaveFrom(ctx, 6)
	s.river.InsertTx(ctx, tx, args{}, nil)

	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	savepoint.Exec(ctx, "INSERT INTO payments DEFAULT VALUES")
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := savepoint.Exec(ctx, "INSERT INTO payments DEFAULT VALUES")
		return err
	})

	// This may be the transaction, or not.
	s.stored(ctx).Exec(ctx, "INSERT INTO payments DEFAULT VALUES")
	var handle db.DBTX = s.pool
	handle = tx
	handle.Exec(ctx, "INSERT INTO payments DEFAULT VALUES")

	//idemgen:allow write-outside-tx the trail of attempts stays when the payment is rolled back
	s.pool.Exec(ctx, "INSERT INTO attempts DEFAULT VALUES")
	s.pool.Exec(ctx, "INSERT INTO attempts DEFAULT VALUES") //idemgen:allow write-outside-tx as above
	return nil, err
}

// A key that is kept through the transaction is as good as derived: it stays
// exactly if the effects do.
func (s service) kept(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	key := keys.Payment()
	if _, err := tx.Exec(ctx, "INSERT INTO outbox (key) VALUES ($1)", key); err != nil {
		return err
	}
	if err := enqueue(ctx, api.NewCreatePaymentIdempotentRequest(key, req.Input()), tx); err != nil {
		return err
	}
	_, err := s.river.InsertTx(ctx, tx, args{Key: key.String()}, nil)
	return err
}

func enqueue(ctx context.Context, req api.CreatePaymentIdempotentRequest, tx pgx.Tx) error { // want enqueue:"writes\\(2\\)"
	_, err := tx.Exec(ctx, "INSERT INTO outbox (request) VALUES ($1)", req)
	return err
}

type options struct{ Twice bool }

// Options are no transaction.
func (s service) pay(ctx context.Context, o options, req api.CreatePaymentIdempotentRequest) error { // want pay:"mints"
	_, err := s.payments.CreatePayment(ctx, req)
	if err == nil && o.Twice {
		_, err = s.payments.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), req.Input()))
	}
	return err
}

func (s service) derived(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	key, err := idempotency.Derive[api.CreatePaymentOp](ctx, "payment")
	if err != nil {
		return err
	}
	_, err = s.payments.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, req.Input()))
	http.Get("http://localhost/rates")
	return err
}

// A client's method has no transaction, and is no handler.
type logging struct {
	api.IdempotentClient
	pool *pgxpool.Pool
}

func (l logging) CreatePayment(ctx context.Context, req api.CreatePaymentIdempotentRequest, editors ...api.RequestEditorFn) (*api.CreatePaymentResponse, error) { // want CreatePayment:"writes\\(receiver\\)"
	l.pool.Exec(ctx, "INSERT INTO log DEFAULT VALUES")
	return l.IdempotentClient.CreatePayment(ctx, req, editors...)
}

// An unmarked operation's handler has no transaction either.
func (s service) Refund(ctx context.Context, account string) error { // want Refund:"mints" Refund:"writes\\(receiver\\)"
	_, err := s.pool.Exec(ctx, "INSERT INTO refunds DEFAULT VALUES")
	if err != nil {
		return err
	}
	_, err = s.payments.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), api.CreatePaymentInput{AccountId: account}))
	return err
}

func consume(ctx context.Context, store idempotency.Store[*sql.Tx], pool *sql.DB) error {
	_, _, err := idempotency.Do(ctx, store, idempotency.Request{}, func(ctx context.Context, tx *sql.Tx) (int, error) {
		var n int
		if err := pool.QueryRowContext(ctx, "SELECT count(*) FROM payments").Scan(&n); err != nil {
			return 0, err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO payments DEFAULT VALUES")
		return n, err
	})
	return err
}
