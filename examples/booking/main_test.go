package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/idemgen/idemgen/examples/booking/bookings"
	"github.com/idemgen/idemgen/examples/booking/charges"
	"github.com/idemgen/idemgen/examples/internal/e2e"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

// TestMain serves where a test has started this binary as a server.
func TestMain(m *testing.M) { e2e.Main(m, serveChild) }

var quiet = slog.New(slog.DiscardHandler)

// serveChild is run with a store that stops where the test wants it to.
func serveChild(args []string) error {
	service, file, chargesURL := args[0], args[1], args[2]
	ctx := context.Background()
	if service == "charges" {
		db, err := open(ctx, file, chargesSchema)
		if err != nil {
			return err
		}
		return serve(ctx, "127.0.0.1:0", newCharges(chargeService{reader: db.reader}, stalling(db), quiet))
	}
	db, err := open(ctx, file, bookingsSchema)
	if err != nil {
		return err
	}
	client, err := newChargesClient(chargesURL, quiet)
	if err != nil {
		return err
	}
	return serve(ctx, "127.0.0.1:0", newBookings(bookingService{reader: db.reader, charges: client, log: quiet}, stalling(db), quiet))
}

func stalling(db database) idempotency.Store[*sql.Tx] {
	return e2e.Stall(idempotency.Store[*sql.Tx](db.store))
}

// hotel is the example with two fresh databases and no process yet. Clients reach
// bookings, and bookings reaches charges, through a gateway that sees their
// requests.
type hotel struct {
	toBookings, toCharges *gateway
	dir                   string
	// held delivers, while somebody receives, a request or an answer that is on
	// its way. It goes on when the channel is closed.
	held chan chan struct{}
}

func openHotel(t *testing.T) hotel {
	t.Helper()
	h := hotel{dir: t.TempDir(), held: make(chan chan struct{})}
	hold := func() {
		released := make(chan struct{})
		select {
		case h.held <- released:
			<-released
		default:
		}
	}
	h.toBookings, h.toCharges = newGateway(t, hold), newGateway(t, hold)
	return h
}

// startBookings starts a process of bookings that stops at point.
func (h hotel) startBookings(t *testing.T, point e2e.Point) *e2e.Process {
	t.Helper()
	p := e2e.Start(t, point, "bookings", filepath.Join(h.dir, "bookings.db"), h.toCharges.URL)
	h.toBookings.passTo(t, p.URL)
	return p
}

// startCharges starts a process of charges that stops at point.
func (h hotel) startCharges(t *testing.T, point e2e.Point) *e2e.Process {
	t.Helper()
	p := e2e.Start(t, point, "charges", filepath.Join(h.dir, "charges.db"), "")
	h.toCharges.passTo(t, p.URL)
	return p
}

// client returns a client of bookings for a tenant. It tries again until it is
// answered, if opts do not say otherwise.
func (h hotel) client(t *testing.T, tenant string, opts ...retry.Option) bookings.IdempotentClient {
	t.Helper()
	client, err := bookings.NewIdempotentClient(h.toBookings.URL, append([]retry.Option{
		retry.WithAttempts(200),
		retry.WithBackoff(retry.FullJitter(20*time.Millisecond, 100*time.Millisecond)),
		bookings.WithClientOptions(bookings.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("X-Api-Key", tenant)
			return nil
		})),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// request is one for a room at a price, paid by anna, under key.
func request(key bookings.CreateBookingIdempotencyKey, room string, price int64) bookings.CreateBookingIdempotentRequest {
	return bookings.NewCreateBookingIdempotentRequest(key, bookings.CreateBookingInput{
		Body: bookings.NewBooking{Room: room, Price: price, Card: "anna"},
	})
}

// newRequest is a request under a new key.
func newRequest() bookings.CreateBookingIdempotentRequest {
	return request(bookings.NewCreateBookingIdempotencyKey(), "lake", 12_000)
}

// outcome is what a call came to.
type outcome struct {
	*bookings.CreateBookingResponse

	err error
}

// send makes a call and delivers its outcome.
func send(t *testing.T, client bookings.IdempotentClient, req bookings.CreateBookingIdempotentRequest) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		answer, err := client.CreateBooking(t.Context(), req)
		done <- outcome{answer, err}
	}()
	return done
}

// booked returns the booking that a call was answered.
func (o outcome) booked(t *testing.T) bookings.Booking {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	if o.JSON201 == nil {
		t.Fatalf("bookings answered %s: %s", o.Status(), o.Body)
	}
	return *o.JSON201
}

// bookings reads all bookings.
func (h hotel) bookings(t *testing.T) []bookings.Booking {
	t.Helper()
	list, err := h.client(t, "reader").ListBookingsWithResponse(t.Context())
	if err != nil || list.JSON200 == nil {
		t.Fatalf("bookings cannot be listed: %v", err)
	}
	return *list.JSON200
}

// charges reads all charges.
func (h hotel) charges(t *testing.T) []charges.Charge {
	t.Helper()
	client, err := charges.NewIdempotentClient(h.toCharges.URL)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.ListChargesWithResponse(t.Context())
	if err != nil || list.JSON200 == nil {
		t.Fatalf("charges cannot be listed: %v", err)
	}
	return *list.JSON200
}

// check says what is wrong unless what clients were answered are all bookings,
// each paid by a charge of its own, and there is no other charge.
func (h hotel) check(t *testing.T, answered ...bookings.Booking) {
	t.Helper()
	paid := map[int64]charges.Charge{}
	for _, c := range h.charges(t) {
		paid[c.Id] = c
	}
	booked := map[bookings.Booking]bool{}
	for _, b := range h.bookings(t) {
		booked[b] = true
	}
	if len(booked) != len(answered) || len(paid) != len(answered) {
		t.Errorf("%d bookings and %d charges, want %d of each", len(booked), len(paid), len(answered))
	}
	for _, b := range answered {
		if !booked[b] {
			t.Errorf("%+v was answered, and is not booked", b)
		}
		if c, ok := paid[b.ChargeId]; !ok || c.Amount != b.Price {
			t.Errorf("%+v is paid by %+v (%t), or by the charge of another booking", b, c, ok)
		}
		delete(paid, b.ChargeId)
	}
}

// checkCalls says what is wrong unless the requests to charges were answered so, in
// this order, and all had one key. Those without an answer do not count.
func (h hotel) checkCalls(t *testing.T, replayed ...bool) {
	t.Helper()
	var got []exchange
	for _, e := range h.toCharges.seen() {
		if e.Status != 0 {
			got = append(got, e)
		}
	}
	if len(got) != len(replayed) {
		t.Fatalf("charges answered %+v, want %d answers", got, len(replayed))
	}
	for i, e := range got {
		if e.Status != http.StatusCreated || e.Key != got[0].Key || e.Body != got[0].Body || e.Replayed != replayed[i] {
			t.Errorf("charges answered %+v to request %d, want the charge of the first one, replayed %t", e, i, replayed[i])
		}
	}
}

// Bookings is killed before the call of charges, after charges has answered and
// before the commit, and after the commit. The client's retry books once, and the
// charge is made once: the second call of charges is a replay.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestBookingsKilled(t *testing.T) {
	t.Parallel()
	for point, calls := range map[e2e.Point][]bool{
		e2e.InHandler:    {false},
		e2e.BeforeCommit: {false, true},
		e2e.AfterCommit:  {false},
	} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			h := openHotel(t)
			h.startCharges(t, "")
			server := h.startBookings(t, point)
			done := send(t, h.client(t, "agency"), newRequest())
			server.AwaitStall(t)
			server.Kill()
			charged := 1
			if point == e2e.InHandler {
				charged = 0
			}
			if list := h.charges(t); len(list) != charged {
				t.Errorf("the killed process left the charges %+v, want %d", list, charged)
			}

			h.startBookings(t, "")
			answer := <-done
			booking := answer.booked(t)
			if answer.Replayed() != (point == e2e.AfterCommit) {
				t.Errorf("the retry was replayed: %t", answer.Replayed())
			}
			h.checkCalls(t, calls...)
			h.check(t, booking)
		})
	}
}

// Charges is killed at each point of the call that bookings makes. The booking
// gets through all the same, or its client's retry does, and the charge is made
// once.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestChargesKilled(t *testing.T) {
	t.Parallel()
	for _, point := range []e2e.Point{e2e.BeforeClaim, e2e.InHandler, e2e.BeforeCommit, e2e.AfterCommit} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			h := openHotel(t)
			server := h.startCharges(t, point)
			h.startBookings(t, "")
			done := send(t, h.client(t, "agency"), newRequest())
			server.AwaitStall(t)
			server.Kill()
			h.startCharges(t, "")
			booking := (<-done).booked(t)
			h.checkCalls(t, point == e2e.AfterCommit)
			h.check(t, booking)
		})
	}
}

// While bookings come in, processes of both services are killed, each time with
// some request or answer on its way. In the end each booking has been made once
// and charged once.
// Covers CRA-01, CRA-02, CRA-03, CRA-04.
func TestKills(t *testing.T) {
	t.Parallel()
	const clients, each, kills = 4, 10, 30
	h := openHotel(t)
	start := [...]func(*testing.T, e2e.Point) *e2e.Process{h.startBookings, h.startCharges}
	servers := [...]*e2e.Process{h.startBookings(t, ""), h.startCharges(t, "")}

	var mu sync.Mutex
	var answered []bookings.Booking
	var wg sync.WaitGroup
	for i := range clients {
		client := h.client(t, fmt.Sprint("agency-", i))
		wg.Go(func() {
			for n := range each {
				answer, err := client.CreateBooking(t.Context(), request(bookings.NewCreateBookingIdempotencyKey(), "lake", int64(100*i+n+1)))
				if err != nil || answer.JSON201 == nil {
					t.Errorf("a booking was not answered: %v", err)
					return
				}
				mu.Lock()
				answered = append(answered, *answer.JSON201)
				mu.Unlock()
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
	}()
	made := 0
	for running := true; running && made < kills; {
		select {
		case <-done:
			running = false
		case released := <-h.held:
			if rand.IntN(3) != 0 {
				close(released)
				continue
			}
			made++
			victim := rand.IntN(len(servers))
			servers[victim].Kill()
			close(released)
			servers[victim] = start[victim](t, "")
		}
	}
	<-done
	replays := 0
	for _, e := range h.toCharges.seen() {
		if e.Replayed {
			replays++
		}
	}
	t.Logf("%d kills, %d bookings, %d calls of charges were replayed", made, len(answered), replays)
	if len(answered) != clients*each {
		t.Errorf("%d bookings were answered, want %d", len(answered), clients*each)
	}
	h.check(t, answered...)
}

// Charges makes the charge, and its answer never arrives: the connection breaks,
// or nothing comes at all. The booking is answered 503, without the derived key;
// nothing of it is kept, and the same request finishes it later.
func TestOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*http.Request){
		"broken":  func(*http.Request) {},
		"hanging": func(r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHotel(t)
			h.startCharges(t, "")
			h.startBookings(t, "")
			client := h.client(t, "agency", retry.WithAttempts(1))
			req := newRequest()

			h.toCharges.loseAnswers(lose)
			_, err := client.CreateBooking(t.Context(), req)
			h.toCharges.loseAnswers(nil)
			var call *idempotency.CallError
			if !errors.As(err, &call) || !call.OutcomeUnknown || call.Response == nil || call.Response.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("the call came to %v, want 503 with an unknown outcome", err)
			}
			body, err := io.ReadAll(call.Response.Body)
			if err != nil {
				t.Fatal(err)
			}
			e2e.Await(t, "the third call of charges has ended", func() error {
				if n := len(h.toCharges.seen()); n < 3 {
					return fmt.Errorf("%d have", n)
				}
				return nil
			})
			if calls := h.toCharges.seen(); len(calls) != 3 || strings.Contains(string(body), calls[0].Key) {
				t.Errorf("after %d calls of charges, want 3, the client was told %s", len(calls), body)
			}
			if list := h.bookings(t); len(list) != 0 {
				t.Errorf("bookings are kept: %+v", list)
			}
			if list := h.charges(t); len(list) != 1 {
				t.Errorf("the charges are %+v, want one", list)
			}

			booking := (<-send(t, client, req)).booked(t)
			h.checkCalls(t, true)
			h.check(t, booking)
		})
	}
}

// A failed call is answered 503 where the same request can succeed later, and 500
// where it cannot, in both without the error's text.
func TestAnswerError(t *testing.T) {
	t.Parallel()
	call := func(c idempotency.CallError) error {
		c.Key, c.Err = "derived-key", errors.New("no luck")
		return fmt.Errorf("wrapped: %w", &c)
	}
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"unknown":     {call(idempotency.CallError{OutcomeUnknown: true}), http.StatusServiceUnavailable},
		"not sent":    {call(idempotency.CallError{}), http.StatusServiceUnavailable},
		"unavailable": {call(idempotency.CallError{Problem: &idempotency.Problem{Status: 503, Code: idempotency.CodeUnavailable, Retryable: true}}), http.StatusServiceUnavailable},
		"mismatch":    {call(idempotency.CallError{Problem: &idempotency.Problem{Status: 422, Code: idempotency.CodeMismatch}}), http.StatusInternalServerError},
		"other":       {errors.New("derived-key"), http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			w := httptest.NewRecorder()
			answerError(slog.New(slog.NewTextHandler(&log, nil)))(w, httptest.NewRequest(http.MethodPost, "/bookings", nil), c.err)
			if w.Code != c.want || (w.Header().Get("Retry-After") != "") != (c.want == http.StatusServiceUnavailable) {
				t.Errorf("answered %d, %v, want %d", w.Code, w.Header(), c.want)
			}
			if strings.Contains(w.Body.String(), "derived-key") || name != "other" && strings.Contains(log.String(), "derived-key") {
				t.Errorf("the derived key is in %s or in %s", w.Body, &log)
			}
		})
	}
}

// Two tenants that send the same request under the same key have nothing in
// common: bookings calls charges as one caller, and the derived keys differ.
// Covers SEC-01.
func TestTenantsWithOneKey(t *testing.T) {
	t.Parallel()
	h := openHotel(t)
	h.startCharges(t, "")
	h.startBookings(t, "")
	req := newRequest()
	one := <-send(t, h.client(t, "agency-1"), req)
	two := <-send(t, h.client(t, "agency-2"), req)
	h.check(t, one.booked(t), two.booked(t))
	if one.Replayed() || two.Replayed() {
		t.Errorf("a tenant got the answer of the other: %t, %t", one.Replayed(), two.Replayed())
	}
}

// Another booking under another key derives another key, whether it asks for the
// same or not.
func TestOtherBookings(t *testing.T) {
	t.Parallel()
	h := openHotel(t)
	h.startCharges(t, "")
	h.startBookings(t, "")
	client := h.client(t, "agency")
	var answered []bookings.Booking
	for _, room := range []string{"lake", "lake", "garden"} {
		answered = append(answered, (<-send(t, client, request(bookings.NewCreateBookingIdempotencyKey(), room, 12_000))).booked(t))
	}
	h.check(t, answered...)
	keys := map[string]bool{}
	for _, e := range h.toCharges.seen() {
		keys[e.Key] = true
	}
	if len(keys) != len(answered) {
		t.Errorf("%d bookings have derived %d keys", len(answered), len(keys))
	}
}

// A request that reuses the key of another booking is refused by bookings, and
// charges hears nothing of it.
func TestReusedKey(t *testing.T) {
	t.Parallel()
	h := openHotel(t)
	h.startCharges(t, "")
	h.startBookings(t, "")
	client := h.client(t, "agency")
	key := bookings.NewCreateBookingIdempotencyKey()
	booking := (<-send(t, client, request(key, "lake", 12_000))).booked(t)
	if _, err := client.CreateBooking(t.Context(), request(key, "garden", 9_000)); !errors.Is(err, idempotency.ErrMismatch) {
		t.Errorf("the reused key came to %v", err)
	}
	h.checkCalls(t, false)
	h.check(t, booking)
}

// A key that is older than the answers of bookings are kept is refused before
// charges is called, whose answer may have gone as well.
// Covers EXP-01.
func TestOldKey(t *testing.T) {
	t.Parallel()
	h := openHotel(t)
	h.startCharges(t, "")
	h.startBookings(t, "")
	ms := time.Now().Add(-25 * time.Hour).UnixMilli()
	key, err := bookings.ParseCreateBookingIdempotencyKey(fmt.Sprintf("%08x-%04x-7000-8000-000000000001", ms>>16, ms&0xffff))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.client(t, "agency").CreateBooking(t.Context(), request(key, "lake", 12_000)); !errors.Is(err, idempotency.ErrExpired) {
		t.Errorf("the old key came to %v", err)
	}
	h.checkCalls(t)
	h.check(t)
}

// Many send the same bookings at the same time, and go on until each has its
// answer: all get the same one, and each is charged once, in one call.
// Covers CON-01.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	const clients, keys = 8, 4
	h := openHotel(t)
	h.startCharges(t, "")
	h.startBookings(t, "")
	requests := make([]bookings.CreateBookingIdempotentRequest, keys)
	for i := range requests {
		requests[i] = newRequest()
	}
	var outcomes [keys][clients]outcome
	var wg sync.WaitGroup
	for c := range clients {
		client := h.client(t, "agency")
		wg.Go(func() {
			for k, req := range requests {
				answer, err := client.CreateBooking(t.Context(), req)
				outcomes[k][c] = outcome{answer, err}
			}
		})
	}
	wg.Wait()
	var answered []bookings.Booking
	for _, got := range outcomes {
		first, executed := got[0].booked(t), 0
		for _, o := range got {
			if o.booked(t) != first {
				t.Errorf("one client was answered %+v, another %+v", first, *o.JSON201)
			}
			if !o.Replayed() {
				executed++
			}
		}
		if executed != 1 {
			t.Errorf("%+v was executed %d times", first, executed)
		}
		answered = append(answered, first)
	}
	if calls := h.toCharges.seen(); len(calls) != keys {
		t.Errorf("charges was called %d times, want %d", len(calls), keys)
	}
	h.check(t, answered...)
}

// A declined card is an answer of the business: nothing is booked, and the replay
// does not ask charges again.
func TestDeclined(t *testing.T) {
	t.Parallel()
	h := openHotel(t)
	h.startCharges(t, "")
	h.startBookings(t, "")
	client := h.client(t, "agency")
	req := bookings.NewCreateBookingIdempotentRequest(bookings.NewCreateBookingIdempotencyKey(), bookings.CreateBookingInput{
		Body: bookings.NewBooking{Room: "lake", Price: 12_000, Card: "empty"},
	})
	for _, replayed := range []bool{false, true} {
		answer, err := client.CreateBooking(t.Context(), req)
		if err != nil || answer.ApplicationproblemJSON402 == nil || answer.Replayed() != replayed {
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	if calls := h.toCharges.seen(); len(calls) != 1 {
		t.Errorf("charges was called %d times, want once", len(calls))
	}
	h.check(t)
}

// inTwo pays a booking in two charges of the same amount, each a step with a name
// of its own. Its first run fails after both.
type inTwo struct {
	bookingService

	runs int
}

func (s *inTwo) CreateBooking(ctx context.Context, _ *sql.Tx, req bookings.CreateBookingIdempotentRequest) (bookings.CreateBookingResponseObject, error) {
	booking := bookings.CreateBooking201JSONResponse{Room: req.Input().Body.Room, Price: req.Input().Body.Price}
	for _, step := range []string{"deposit", "rest"} {
		key, err := idempotency.Derive[charges.CreateChargeOp](ctx, step)
		if err != nil {
			return nil, err
		}
		charge, err := s.charge(ctx, charges.NewCreateChargeIdempotentRequest(key, charges.CreateChargeInput{
			Body: charges.NewCharge{Card: "anna", Amount: booking.Price / 2},
		}))
		if err != nil || charge.JSON201 == nil {
			return nil, fmt.Errorf("no charge: %w", err)
		}
		booking.ChargeId = charge.JSON201.Id
	}
	if s.runs++; s.runs == 1 {
		return nil, errors.New("no room")
	}
	return booking, nil
}

// Two steps of one booking are two charges, though they ask for the same, and they
// are the same two when the booking runs again.
func TestSteps(t *testing.T) {
	t.Parallel()
	h := openHotel(t)
	h.startCharges(t, "")
	db, err := open(t.Context(), filepath.Join(h.dir, "bookings.db"), bookingsSchema)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.close)
	client, err := newChargesClient(h.toCharges.URL, quiet)
	if err != nil {
		t.Fatal(err)
	}
	service := &inTwo{bookingService: bookingService{reader: db.reader, charges: client, log: quiet}}
	server := httptest.NewServer(newBookings(service, db.store, quiet))
	t.Cleanup(server.Close)
	h.toBookings.passTo(t, server.URL)

	booking := (<-send(t, h.client(t, "agency"), newRequest())).booked(t)
	list, calls := h.charges(t), h.toCharges.seen()
	if len(list) != 2 || list[0].Amount != 6_000 || list[1].Amount != 6_000 || booking.ChargeId != list[1].Id {
		t.Errorf("the charges are %+v, want two of 6000, the second of them in %+v", list, booking)
	}
	if len(calls) != 4 || calls[0].Key == calls[1].Key || calls[0].Key != calls[2].Key || calls[1].Key != calls[3].Key {
		t.Errorf("charges was called with %+v, want two keys twice", calls)
	}
}
