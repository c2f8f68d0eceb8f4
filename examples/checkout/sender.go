package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

// States of a payment. An open one is sent, and sent again, until it has
// another.
const (
	paid     = "paid"
	declined = "declined" // the service says no: no money has moved, and none will
	parked   = "parked"   // sending it again does not help: a person finds out
)

// sender pays for orders: it sends their stored requests until each has a
// result. Several can run at once, in several processes too.
type sender struct {
	db       *sql.DB
	payments api.IdempotentClient
	pause    time.Duration // from the first try to the second; it doubles from try to try, up to an hour
	placed   chan struct{} // wakes a sender that has nothing to do
	log      *slog.Logger
}

// payment is an order's turn to be paid.
type payment struct {
	order   string
	request string
	placed  time.Time
	due     time.Time // when its next turn comes, unless this one ends it
}

// run sends what is due, one order after the other, until ctx ends. What is on
// its way then is sent again after the next start, as after a crash.
func (s sender) run(ctx context.Context) {
	for ctx.Err() == nil {
		p, err := s.take(ctx)
		if err != nil {
			if !errors.Is(err, sql.ErrNoRows) {
				s.log.Error("the database fails", "error", err)
			}
			select {
			case <-s.placed:
			case <-time.After(min(s.pause, time.Second)):
			case <-ctx.Done():
			}
			continue
		}
		state, err := s.pay(ctx, p)
		switch {
		case err != nil:
			s.log.Warn("not settled; the same request is sent again", "order", p.order, "at", p.due, "error", err)
		case state == parked:
			s.log.Error("parked", "order", p.order)
		default:
			s.log.Info(state, "order", p.order)
		}
	}
}

// take returns the payment that has been due for longest, or sql.ErrNoRows. It
// makes it due again later: so nothing has to be written when a try fails, or
// when this process does, and an order that fails does not hold up the others.
func (s sender) take(ctx context.Context) (p payment, err error) {
	var placed, due int64
	err = s.db.QueryRowContext(ctx, `UPDATE payments
		SET tries = tries + 1, due = ?1 + min(?2 << min(tries, 20), 3600000)
		WHERE order_id = (SELECT order_id FROM payments WHERE state = 'open' AND due <= ?1 ORDER BY due LIMIT 1)
		RETURNING order_id, request, placed, due`, time.Now().UnixMilli(), s.pause.Milliseconds()).
		Scan(&p.order, &p.request, &placed, &due)
	p.placed, p.due = time.UnixMilli(placed), time.UnixMilli(due)
	return p, err
}

// horizon is how long an order's request is sent, from when it was placed. After
// the retention the service forgets a key, and would pay a second time. Half of
// that is left for wrong clocks, and for the person who looks at what is parked.
func horizon() time.Duration { return api.CreatePaymentOp{}.Operation().Retention / 2 }

// pay sends a request and records what has become of it. With an error it has
// recorded nothing, and the payment stays open.
func (s sender) pay(ctx context.Context, p payment) (state string, err error) {
	if time.Since(p.placed) > horizon() {
		return parked, s.record(ctx, p, parked, reason(fmt.Errorf("still open %v after it was placed", horizon())))
	}
	var req api.CreatePaymentIdempotentRequest
	if err := json.Unmarshal([]byte(p.request), &req); err != nil {
		return "", err
	}
	call, cancel := context.WithDeadline(ctx, p.due)
	defer cancel()
	state, result, err := outcome(s.payments.CreatePayment(call, req))
	if err != nil {
		return "", err
	}
	return state, s.record(ctx, p, state, result)
}

// outcome says what the end of a call means for the order. An error is no
// outcome: the same request must be sent again. That holds if the call's own
// outcome is unknown, and if it is known to have had no effect, since a call
// before it, of a process that crashed, can have had one.
func outcome(answer *api.CreatePaymentResponse, err error) (state string, result []byte, _ error) {
	var failed *idempotency.CallError
	switch {
	case err == nil && answer.JSON201 != nil:
		return paid, answer.Body, nil
	case err == nil && declines(answer):
		return declined, answer.Body, nil
	case err == nil: // a gateway's, say, or for lack of a password
		return "", nil, fmt.Errorf("the answer %s is none of the operation's", answer.Status())
	case errors.As(err, &failed) && refusesRequest(failed.Problem):
		return parked, reason(err), nil
	default:
		return "", nil, err
	}
}

// declines reports whether an answer is the operation's own no. JSON that a
// gateway sends with the same status does not say that status once more.
func declines(a *api.CreatePaymentResponse) bool {
	for _, no := range []*api.Problem{a.ApplicationproblemJSON400, a.ApplicationproblemJSON402, a.ApplicationproblemJSON404} {
		if no != nil {
			return no.Status == a.StatusCode()
		}
	}
	return false
}

// refusesRequest reports whether a refusal is for this request, whoever sends
// it and however often: its key belongs to another one (mismatch), has expired,
// or is no key. It does not say that no money has moved.
func refusesRequest(p *idempotency.Problem) bool {
	return p != nil && p.Status/100 == 4 && !p.Retryable && p.Code != idempotency.CodeScopeMissing
}

// reason is the result of a parked payment.
func reason(err error) []byte {
	text, err := json.Marshal(err.Error())
	if err != nil { // a string always encodes
		panic(err)
	}
	return text
}

// record writes the result of a payment beside its order. The first one stays.
func (s sender) record(ctx context.Context, p payment, state string, result []byte) error {
	_, err := s.db.ExecContext(ctx, `UPDATE payments SET state = ?, result = ? WHERE order_id = ? AND state = 'open'`, state, string(result), p.order)
	return err
}
