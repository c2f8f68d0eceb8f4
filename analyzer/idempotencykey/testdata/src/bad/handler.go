package bad

import (
	"context"
	"database/sql"

	"shop/api"
	"shop/db"
	"shop/keys"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jmoiron/sqlx"
	"github.com/riverqueue/river"
	"gorm.io/gorm"
)

type service struct {
	pool     *pgxpool.Pool
	queries  *db.Queries
	orders   *db.Repository
	river    *river.Client[pgx.Tx]
	payments api.IdempotentClient
	any      db.DBTX
	shards   []*pgxpool.Pool
}

var _ api.IdempotentServer[pgx.Tx] = service{}

var global *pgxpool.Pool

type args struct{ Key string }

func (args) Kind() string { return "mail" }

func (s service) CreatePayment(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) (api.CreatePaymentResponseObject, error) {
	if _, err := s.pool.Exec(ctx, "INSERT INTO payments DEFAULT VALUES"); err != nil { // want `this handler writes through s.pool`
		return nil, err
	}
	s.any.Exec(ctx, "UPDATE accounts SET balance = 0")                                     // want `this handler writes through s.any`
	global.Exec(ctx, "DELETE FROM accounts")                                               // want `this handler writes through global`
	s.pool.Exec(ctx, req.Input().AccountId)                                                // want `this handler writes through s.pool`
	row := s.pool.QueryRow(ctx, "INSERT INTO payments DEFAULT VALUES RETURNING id")        // want `this handler writes through s.pool`
	s.pool.Query(ctx, "WITH old AS (DELETE FROM payments RETURNING id) SELECT * FROM old") // want `this handler writes through s.pool`
	s.pool.CopyFrom(ctx, pgx.Identifier{"payments"}, nil, nil)                             // want `this handler writes through s.pool`
	_ = row

	for _, shard := range s.shards {
		shard.Exec(ctx, "DELETE FROM accounts") // want `this handler writes through shard`
	}

	batch := &pgx.Batch{}
	batch.Queue("UPDATE accounts SET balance = balance - 1")
	s.pool.SendBatch(ctx, batch) // want `this handler writes through s.pool`

	pool := s.pool
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	conn.Exec(ctx, "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through conn`

	other, err := s.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	other.Exec(ctx, "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through other`

	go func() {
		s.pool.Exec(ctx, "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through s.pool`
	}()

	err = pgx.BeginFunc(ctx, s.pool, func(other pgx.Tx) error {
		if _, err := s.queries.WithTx(other).InsertOrder(ctx, 1); err != nil { // want `s.queries.WithTx\(other\).InsertOrder writes through s.queries.WithTx\(other\)`
			return err
		}
		_, err := other.Exec(ctx, "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through other`
		return err
	})
	return nil, err
}

type ledger struct{ service }

func (l *ledger) CreatePayment(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) (api.CreatePaymentResponseObject, error) {
	l.queries.InsertOrder(ctx, 1)      // want `l.queries.InsertOrder writes through l.queries`
	db.New(l.pool).InsertOrder(ctx, 1) // want `InsertOrder writes through db.New\(l.pool\)`
	l.orders.Save(ctx, 1)              // want `l.orders.Save writes through l.orders`
	l.orders.SaveIn(ctx, l.pool, 1)    // want `l.orders.SaveIn writes through l.pool`
	db.InsertWith(ctx, l.pool, 1)      // want `db.InsertWith writes through l.pool`
	db.Log(ctx, "paid")                // want `db.Log writes through a variable of its package`
	l.river.Insert(ctx, args{}, nil)   // want `l.river.Insert takes effect even if this handler is rolled back: call InsertTx`
	return nil, nil
}

func (s service) nested(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	key := api.NewCreatePaymentIdempotencyKey() // want `this handler makes a new key for a call`
	_, err := s.payments.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, req.Input()))
	return err
}

func (s service) leased(ctx context.Context, lease *idempotency.Lease, req api.CreatePaymentIdempotentRequest) error {
	for range req.Input().AccountId {
		nested := api.NewCreatePaymentIdempotentRequest(keys.Payment(), req.Input()) // want `this handler makes a new key for a call`
		if _, err := s.payments.CreatePayment(ctx, nested); err != nil {
			return err
		}
	}
	return nil
}

func consume(ctx context.Context, store idempotency.Store[*sql.Tx], pool *sql.DB, client api.IdempotentClient) error {
	_, _, err := idempotency.Do(ctx, store, idempotency.Request{}, func(ctx context.Context, tx *sql.Tx) (int, error) {
		_, err := pool.ExecContext(ctx, "INSERT INTO payments DEFAULT VALUES") // want `this handler writes through pool`
		return 0, err
	})
	return err
}

type consumer struct{ pool *sql.DB }

func (c consumer) consume(ctx context.Context, store idempotency.Store[*sql.Tx]) error {
	_, _, err := idempotency.Do(ctx, store, idempotency.Request{}, c.handle)
	return err
}

func (c consumer) handle(ctx context.Context, tx *sql.Tx) (int, error) {
	statement, err := c.pool.PrepareContext(ctx, "INSERT INTO payments DEFAULT VALUES")
	if err != nil {
		return 0, err
	}
	_, err = statement.ExecContext(ctx) // want `this handler writes through statement`
	return 0, err
}

func execute(ctx context.Context, store idempotency.Store[*sql.Tx], pool *sql.DB) {
	store.Execute(ctx, idempotency.Request{}, func(ctx context.Context, tx *sql.Tx) (idempotency.Response, error) {
		_, err := pool.Exec("INSERT INTO payments DEFAULT VALUES") // want `this handler writes through pool`
		return idempotency.Response{}, err
	})
}

type mapped struct {
	gorm *gorm.DB
	sqlx *sqlx.DB
}

func (m mapped) CreatePayment(ctx context.Context, tx *sql.Tx, req api.CreatePaymentIdempotentRequest) (api.CreatePaymentResponseObject, error) {
	m.gorm.First(&req)
	m.gorm.WithContext(ctx).Create(&req)                            // want `this handler writes through m.gorm.WithContext\(ctx\)`
	m.sqlx.NamedExec("INSERT INTO payments (id) VALUES (:id)", req) // want `this handler writes through m.sqlx`
	m.sqlx.QueryRowx("UPDATE payments SET id = 1 RETURNING id")     // want `this handler writes through m.sqlx`
	m.sqlx.QueryRowx("SELECT id FROM payments")
	m.sqlx.Exec("DELETE FROM payments") // want `this handler writes through m.sqlx`
	return nil, nil
}
