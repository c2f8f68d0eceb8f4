package main

import (
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/idemgen/idemgen/examples/booking/bookings"
	"github.com/idemgen/idemgen/examples/booking/charges"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

//go:embed bookings.sql
var bookingsSchema string

// chargeTimeout limits a booking's call of charges, with all its attempts and
// pauses. The booking's transaction is open meanwhile, and on SQLite no other
// booking can begin: it waits for its turn, at most for the store's 5 s.
// Clients of bookings wait 30 s for an answer.
const chargeTimeout = 4 * time.Second

// newChargesClient returns a client of charges, as the service bookings. Its
// attempts and pauses fit into chargeTimeout.
func newChargesClient(url string, log *slog.Logger) (charges.IdempotentClient, error) {
	return charges.NewIdempotentClient(url,
		retry.WithAttempts(3),
		retry.WithAttemptTimeout(time.Second),
		retry.WithBackoff(retry.FullJitter(100*time.Millisecond, 500*time.Millisecond)),
		retry.WithObserver(retry.LogTo(log)),
		charges.WithClientOptions(charges.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-Api-Key", "bookings")
			return nil
		})),
	)
}

// bookingService implements the generated IdempotentServer of bookings.
type bookingService struct {
	reader  *sql.DB
	charges charges.IdempotentClient
	work    time.Duration // how long a booking goes on after its charge, to have time to kill it
	log     *slog.Logger
}

var _ bookings.IdempotentServer[*sql.Tx] = bookingService{}

// newBookings wires the API of bookings.
func newBookings(s bookings.IdempotentServer[*sql.Tx], store idempotency.Store[*sql.Tx], log *slog.Logger) http.Handler {
	return bookings.Handler(bookings.NewIdempotentHandler(
		s,
		store,
		idempotency.ScopeByHeader("X-Api-Key"),
		idempotency.WithObserver(idempotency.LogTo(log)),
		bookings.WithStrictServer(bookings.StrictHTTPServerOptions{ResponseErrorHandlerFunc: answerError(log)}),
	))
}

// CreateBooking has the card charged and writes the booking. The charge is made
// by another service, so no rollback takes it back: it has a key that each run of
// this booking derives alike.
func (s bookingService) CreateBooking(ctx context.Context, tx *sql.Tx, req bookings.CreateBookingIdempotentRequest) (bookings.CreateBookingResponseObject, error) {
	in := req.Input().Body
	key, err := idempotency.Derive[charges.CreateChargeOp](ctx, "charge")
	if err != nil {
		return nil, err
	}
	charge, err := s.charge(ctx, charges.NewCreateChargeIdempotentRequest(key, charges.CreateChargeInput{
		Body: charges.NewCharge{Card: in.Card, Amount: in.Price},
	}))
	switch {
	case err != nil:
		// Rolled back, and the key is free: the client's retry runs this again.
		return nil, err
	case charge.ApplicationproblemJSON402 != nil:
		return bookings.CreateBooking402ApplicationProblemPlusJSONResponse(*charge.ApplicationproblemJSON402), nil
	case charge.JSON201 == nil:
		return nil, fmt.Errorf("charges answered %s", charge.Status())
	}
	s.log.InfoContext(ctx, "charged", "charge", charge.JSON201.Id, "replayed", charge.Replayed())
	select {
	case <-time.After(s.work):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	booking := bookings.Booking{Room: in.Room, Price: in.Price, ChargeId: charge.JSON201.Id}
	err = tx.QueryRowContext(ctx, `INSERT INTO bookings (room, price, charge_id) VALUES (?, ?, ?) RETURNING id`, booking.Room, booking.Price, booking.ChargeId).Scan(&booking.Id)
	return bookings.CreateBooking201JSONResponse(booking), err
}

// charge sends req to charges, until there is an answer or chargeTimeout is over.
func (s bookingService) charge(ctx context.Context, req charges.CreateChargeIdempotentRequest) (*charges.CreateChargeResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, chargeTimeout)
	defer cancel()
	return s.charges.CreateCharge(ctx, req)
}

// answerError answers when a handler has failed. The error itself stays here: that
// of a call holds the derived key and the address of charges. A refusal that
// charges would repeat, such as a mismatch, is a mistake of this service.
func answerError(log *slog.Logger) func(http.ResponseWriter, *http.Request, error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		problem := bookings.Problem{Status: http.StatusInternalServerError, Title: "Internal error"}
		if call := (*idempotency.CallError)(nil); errors.As(err, &call) {
			err = call.Err // without the key
			if call.Problem == nil || call.Problem.Retryable {
				problem = bookings.Problem{Status: http.StatusServiceUnavailable, Title: "The charge has not answered; send the same request again with the same key"}
				w.Header().Set("Retry-After", "1")
			}
		}
		log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(problem.Status)
		if err := json.NewEncoder(w).Encode(problem); err != nil {
			log.DebugContext(r.Context(), "the client has gone", "error", err)
		}
	}
}

// ListBookings is not marked in the document: its signature is oapi-codegen's own.
func (s bookingService) ListBookings(ctx context.Context, _ bookings.ListBookingsRequestObject) (bookings.ListBookingsResponseObject, error) {
	rows, err := s.reader.QueryContext(ctx, `SELECT id, room, price, charge_id FROM bookings ORDER BY id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	list := bookings.ListBookings200JSONResponse{} // an empty list is [], not null
	for rows.Next() {
		var b bookings.Booking
		if err := rows.Scan(&b.Id, &b.Room, &b.Price, &b.ChargeId); err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, rows.Err()
}
