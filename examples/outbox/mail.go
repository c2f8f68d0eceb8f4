package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// confirmation is the job that confirms an order. It says all that the worker
// needs: the order may have changed by the time it runs.
type confirmation struct {
	OrderID int64  `json:"order_id"`
	To      string `json:"to"`
	Item    string `json:"item"`
}

// Kind names the job in River's tables.
func (confirmation) Kind() string { return "order_confirmation" }

// mail is an e-mail as it leaves the worker.
type mail struct {
	ID      string `json:"id"` // its Message-ID (RFC 5322 section 3.6.4), without the brackets
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// mailer hands an e-mail over to the world. It can fail after it has done so.
type mailer func(ctx context.Context, m mail) error

// worker sends confirmations. River runs a job again if it fails, or if the
// process dies before River has noted that it is done: at least once. Each run
// sends the same Message-ID, by which a mail server or its API drops the second.
type worker struct {
	river.WorkerDefaults[confirmation]
	send mailer
}

// Work sends the e-mail of one job.
func (w worker) Work(ctx context.Context, job *river.Job[confirmation]) error {
	return w.send(ctx, mail{
		ID:      fmt.Sprintf("order-%d@shop.example", job.Args.OrderID),
		To:      job.Args.To,
		Subject: "Your order: " + job.Args.Item,
	})
}

// newJobs returns River's client for pool. With workers it also works, once it
// is started; without, it only enqueues.
func newJobs(pool *pgxpool.Pool, send mailer, workers int, logger *slog.Logger) (*river.Client[pgx.Tx], error) {
	config := river.Config{Logger: logger}
	if workers > 0 {
		config.Workers = river.NewWorkers()
		river.AddWorker(config.Workers, worker{send: send})
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: workers}}
		config.SoftStopTimeout = 10 * time.Second
	}
	return river.NewClient(riverpgxv5.New(pool), &config)
}

// sendTo returns a mailer that appends each e-mail as a line to file. It stands
// for a mail server: what is written there is out of the database's reach, and no
// rollback takes it back.
func sendTo(file string) mailer {
	return func(_ context.Context, m mail) error {
		line, err := json.Marshal(m)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if _, err := f.Write(append(line, '\n')); err != nil {
			_ = f.Close() // the write says what is wrong
			return err
		}
		return f.Close()
	}
}
