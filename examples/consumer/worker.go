package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// maxAge is when the stream drops an order: none is delivered later.
	maxAge = 7 * 24 * time.Hour
	// retention outlives every delivery, also one that waited in a process that
	// was suspended. An order that came after it would be credited again.
	retention = maxAge + 24*time.Hour
	// maxDeliveries is when an order that fails each time is parked.
	maxDeliveries = 20
)

// errPoison marks an order that no later delivery can make good.
var errPoison = errors.New("the order cannot be processed")

// worker credits points for orders that are delivered at least once.
type worker struct {
	store   idempotency.Store[*sql.Tx]
	js      jetstream.JetStream
	ackWait time.Duration // when the broker takes a delivery for lost
	log     *slog.Logger
}

// consume handles orders, one at a time, until ctx ends.
func (w worker) consume(ctx context.Context, orders jetstream.Consumer) error {
	// AckWait runs from the delivery: an order that waited here in a buffer
	// would be delivered again before its turn came.
	messages, err := orders.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // the broker is out of reach; the client connects again by itself
		case err != nil:
			return err
		}
		w.handle(context.WithoutCancel(ctx), msg) // what has begun may finish
	}
}

// handle credits the order in msg and then tells the broker what becomes of it.
func (w worker) handle(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		w.log.Error("not a message of a stream", "subject", msg.Subject(), "error", err)
		return
	}
	log := w.log.With("order", msg.Headers().Get(jetstream.MsgIDHeader), "delivery", meta.NumDelivered)
	shop := strings.Split(msg.Subject(), ".")[1] // orders.<shop>.placed
	receipt, replayed, err := w.credit(ctx, shop, msg)
	switch {
	case err == nil:
		log.Info("credited", "replayed", replayed)
		// After a crash here the order comes again and Do returns the same
		// receipt, so in the end it is announced. The broker drops copies.
		if err = w.announce(ctx, shop, receipt); err == nil {
			err = msg.Ack()
		}
	case errors.Is(err, idempotency.ErrInFlight):
		// Another delivery is at work; its Ack settles this one too.
		log.Info("in flight")
		err = msg.NakWithDelay(w.ackWait)
	case hopeless(err, meta.NumDelivered):
		log.Error("parked", "error", err)
		err = w.park(ctx, msg, meta, err)
	default:
		log.Warn("will be tried again", "error", err)
		err = msg.NakWithDelay(backoff(meta.NumDelivered))
	}
	if err != nil {
		// The broker delivers the order again after AckWait, which is harmless.
		log.Warn("not settled", "error", err)
	}
}

// credit credits the order in msg, once for all its deliveries.
func (w worker) credit(ctx context.Context, shop string, msg jetstream.Msg) (receipt Receipt, replayed bool, err error) {
	// Do has rolled back when a panic comes out of it. One order must not take
	// the others' workers with it, delivery after delivery.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	var order Order
	if err := json.Unmarshal(msg.Data(), &order); err != nil {
		return Receipt{}, false, fmt.Errorf("%w: %w", errPoison, err)
	}
	return idempotency.Do(ctx, w.store, idempotency.Request{
		Identity: idempotency.Identity{
			Scope:     shop,           // two shops may use the same ids
			Operation: "creditPoints", // what another consumer does with the same order has another name
			Key:       msg.Headers().Get(jetstream.MsgIDHeader),
		},
		Fingerprint: idempotency.FingerprintOf(msg.Data()), // with the scope, all that credit sees
		Retention:   retention,
	}, func(ctx context.Context, tx *sql.Tx) (Receipt, error) {
		return credit(ctx, tx, shop, order)
	})
}

// hopeless reports whether to give up: two orders under one id (mismatch), an
// order without an id (key_invalid), a poisonous one, or one that credit has
// failed for too often. While the database is out of reach no order is given up.
func hopeless(err error, delivery uint64) bool {
	var refusal *idempotency.Error
	if errors.As(err, &refusal) {
		return !refusal.Code.Retryable()
	}
	return errors.Is(err, errPoison) || delivery >= maxDeliveries
}

// backoff is 1 s after the first delivery, doubles, and ends at a minute.
func backoff(delivery uint64) time.Duration {
	return min(time.Second<<min(delivery-1, 6), time.Minute)
}

// announce publishes receipt under an id of its own.
func (w worker) announce(ctx context.Context, shop string, receipt Receipt) error {
	body, err := json.Marshal(receipt)
	if err != nil {
		return err
	}
	_, err = w.js.Publish(ctx, "points."+shop+".credited", body, jetstream.WithMsgID(fmt.Sprintf("credit-%d", receipt.ID)))
	return err
}

// park keeps msg with the reason where a person finds it, and only then ends
// its deliveries.
func (w worker) park(ctx context.Context, msg jetstream.Msg, meta *jetstream.MsgMetadata, reason error) error {
	parked := nats.NewMsg("parked." + msg.Subject())
	parked.Data = msg.Data()
	parked.Header.Set("Order-Id", msg.Headers().Get(jetstream.MsgIDHeader))
	parked.Header.Set("Reason", reason.Error())
	id := fmt.Sprintf("%s-%d", meta.Stream, meta.Sequence.Stream)
	if _, err := w.js.PublishMsg(ctx, parked, jetstream.WithMsgID(id)); err != nil {
		return err
	}
	return msg.TermWithReason(reason.Error())
}
