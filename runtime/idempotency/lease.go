package idempotency

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ErrLeaseLost says that an attempt does not hold its claim any more: its lease
// has run out, and since then another attempt may have taken the claim over, or
// an operator or a sweep has deleted it. It is the cause of a context that was
// cancelled for it ([context.Cause]), and what [Lease.Extend] and a [Leaser] answer.
var ErrLeaseLost = errors.New("idempotency: the lease is lost")

// LeaseToken tells one run of a handler from all others that claim the same
// key: 16 random bytes, new for each run. The zero LeaseToken belongs to a
// request without a key.
//
// It is a fencing token that can be compared and says nothing about order. A
// system that keeps the token of the run that it last began with, and refuses
// steps under another one, is safe from a run that has lost its lease. It is
// no idempotency key: the run that takes over has another token, and the same
// key from [Derive].
type LeaseToken [16]byte

// String returns the token as 32 hexadecimal digits, or "" for the zero
// LeaseToken.
func (t LeaseToken) String() string {
	if t.IsZero() {
		return ""
	}
	return hex.EncodeToString(t[:])
}

// IsZero reports whether t is the zero LeaseToken.
func (t LeaseToken) IsZero() bool { return t == LeaseToken{} }

// Leaser is what a store offers for handlers whose effects lie outside of it:
// claims that outlive a transaction. A claim is a durable record that holds a
// token and the time at which its lease ends, by the store's clock. Each method
// is one atomic step. What is done with the steps, from the heartbeat to the
// answer of an attempt that has lost its claim, is up to [Leases].
//
// Every method returns [ErrUnavailable] where the store cannot be reached, or
// cannot say what became of the step; then the same call may be made again, and
// has the same effect as one.
type Leaser interface {
	// AcquireLease claims req under token until req.Lease has passed. It
	// returns a Result with Replayed set where an answer is stored, and the
	// zero Result where the claim was made, or was there under the same token.
	//
	// A record decides first. A stored answer and a claim are compared with
	// req.Fingerprint for as long as they are kept: [ErrMismatch]. A claim of
	// another token is [ErrInFlight] until its lease has passed; from then on
	// it is taken over, and of several who try one succeeds. Only where no
	// record is found, or one whose retention is over, [Request.CheckAge]
	// judges the key.
	//
	// An attempt in [Store.Execute] is in flight for it, and a claim is for
	// Execute; a claim whose lease has passed is taken over by Execute too.
	AcquireLease(ctx context.Context, req Request, token LeaseToken) (Result, error)
	// ExtendLease makes the lease of a claim last for d from now, if it does
	// not last longer. It returns [ErrLeaseLost] where token does not hold the
	// claim. A lease that has passed can be extended until it is taken over.
	ExtendLease(ctx context.Context, req Request, token LeaseToken, d time.Duration) error
	// CompleteLease replaces the claim by the answer, which is kept for
	// req.Retention. It returns [ErrLeaseLost], and leaves alone what is
	// there, where token does not hold the claim and has not completed it.
	CompleteLease(ctx context.Context, req Request, token LeaseToken, resp Response) error
	// ReleaseLease deletes the claim, so that the key is free. It returns
	// [ErrLeaseLost], and leaves alone what is there, where token does not
	// hold the claim.
	ReleaseLease(ctx context.Context, req Request, token LeaseToken) error
}

// LeaseStore is a [Store] that can serve operations in lease mode beside others.
type LeaseStore[Tx any] interface {
	Store[Tx]
	Leaser
}

// Leases returns a [Store] whose work is given a [Lease] instead of a
// transaction, for [Do] and for effects that lie outside of the database. Its
// requests need a [Request.Lease].
//
// Execute claims the key before it runs work and stores the answer afterwards.
// While work runs a heartbeat extends the lease, each time that a third of it
// has passed, until work has run for as long as ceiling; then the lease runs
// out. A ceiling shorter than the lease extends nothing. When the lease ends
// before work does, or the claim is found to be gone, work's context is
// cancelled, with a cause that matches [ErrLeaseLost].
//
//   - Work that returns an error or panics frees the key, or if the store cannot
//     be reached for 5 s, leaves it until its lease has passed. What it has done
//     outside is not undone. A claim that got no answer, so that work did not
//     run, is freed in the background in the same way.
//   - An answer is stored if the token still holds the claim, even if its lease
//     has passed. Otherwise it is dropped: the error matches
//     [ErrOutcomeUnknown] and [ErrLeaseLost], and so it does for work that
//     fails after its claim has gone.
//   - If the answer cannot be stored for 5 s, the error matches
//     [ErrOutcomeUnknown]. The claim stays, since the effects have happened,
//     and can be taken over when its lease has passed.
//
// Whoever takes over runs work again, so that effects happen at least once.
// They happen once where the other system takes a key from [Derive] or
// [DeriveUUID], which is the same in each run.
//
// Transact runs work with a lease that is not one, see [Lease.Token].
func Leases(leaser Leaser, ceiling time.Duration) Store[*Lease] { return leases{leaser, ceiling} }

type leases struct {
	Leaser
	ceiling time.Duration
}

// Execute implements [Store].
func (s leases) Execute(ctx context.Context, req Request, work Work[*Lease]) (Result, error) {
	if req.Lease <= 0 {
		return Result{}, fmt.Errorf("idempotency: %s: the lease is %v; it must be positive", req.Operation, req.Lease)
	}
	l := &Lease{leaser: s.Leaser, req: req}
	_, _ = rand.Read(l.token[:]) // never fails
	since := time.Now()
	result, err := s.AcquireLease(ctx, req, l.token)
	if errors.Is(err, ErrUnavailable) {
		// The claim may have been made all the same. It has run nothing, so its
		// key is freed; the answer does not wait for that, which ends in time.
		go func() {
			_ = settle(context.WithoutCancel(ctx), func(ctx context.Context) error { return s.ReleaseLease(ctx, req, l.token) })
		}()
	}
	if err != nil || result.Replayed {
		return result, err
	}
	ctx, cancel := l.hold(ctx, since, s.ceiling)
	defer cancel()
	returned := false
	defer func() {
		if !returned { // the panic goes on
			_ = l.release()
		}
	}()
	if !time.Now().Before(l.Deadline()) {
		return Result{}, &Error{Code: CodeUnavailable, Detail: "the claim took longer than its lease"}
	}
	resp, err := work(ctx, l)
	returned = true
	if err != nil {
		if lost := l.release(); errors.Is(lost, ErrLeaseLost) {
			// The handler's error is told, and decides nothing.
			return Result{}, l.fenced(fmt.Errorf("%w; the handler returned: %v", lost, err)) //nolint:errorlint // see above
		}
		return Result{}, err
	}
	switch err := l.settle(func(ctx context.Context) error { return s.CompleteLease(ctx, req, l.token, resp) }); {
	case errors.Is(err, ErrLeaseLost):
		return Result{}, l.fenced(err)
	case err != nil:
		return Result{}, &Error{
			Code:       CodeOutcomeUnknown,
			Detail:     "the request was carried out, and its answer could not be stored; the same request with the same key is carried out again once the lease has passed",
			RetryAfter: max(time.Until(l.Deadline()), 0),
			Err:        err,
		}
	}
	return Result{Response: resp}, nil
}

// Transact implements [Store].
func (s leases) Transact(ctx context.Context, work Work[*Lease]) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, &Error{Code: CodeUnavailable, Detail: "the request was cancelled before it was executed", Err: context.Cause(ctx)}
	}
	return work(ctx, new(Lease))
}

// Lease is what a handler runs with in lease mode, in place of a transaction.
// It is safe for concurrent use and ends when the handler returns.
type Lease struct {
	leaser Leaser // nil in the lease of a request without a key
	req    Request
	token  LeaseToken

	beats   context.Context // of the heartbeat, ends with the handler
	work    context.CancelCauseFunc
	ceiling time.Time

	mu     sync.Mutex
	timer  *time.Timer
	until  time.Time // no later than the lease ends by the store's clock
	failed error     // of the last extension
	over   error     // why it can be extended no more
}

// errEnded is why the lease of a handler that has returned is over.
var errEnded = errors.New("idempotency: the handler has returned, and its lease has ended")

// maxExtension is how long a key can stay claimed by a process that has died
// right after an extension.
const maxExtension = 24 * time.Hour

// Token returns the fencing token of this run. A request without a key
// (required: false) holds no lease and is not protected: its token is zero, its
// Deadline is the zero time, and Extend does nothing.
func (l *Lease) Token() LeaseToken { return l.token }

// Deadline returns when the lease ends if nothing extends it, by this
// process's clock. The heartbeat moves it on. That clock is the monotonic one of
// package time, which on some systems does not count the time in which the
// machine is suspended: then the lease can have ended before.
func (l *Lease) Deadline() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Extend makes the lease last for d from now, if it does not last longer, also
// beyond what the heartbeat does. Call it before a step that is known to be
// long, or to learn that the claim is still held before a step that matters.
// A process that dies leaves its key claimed until the lease has passed, so d is
// at most 24 hours.
// It returns an error that matches [ErrLeaseLost] once the lease is lost, and
// [ErrUnavailable] where the store cannot be reached, which leaves the lease as
// it was.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	switch {
	case d <= 0 || d > maxExtension:
		return fmt.Errorf("idempotency: a lease cannot be extended by %v: at least 1 ns and at most %v", d, maxExtension)
	case l.leaser == nil:
		return nil
	}
	return l.extend(ctx, d)
}

func (l *Lease) extend(ctx context.Context, d time.Duration) error {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	if over != nil {
		return over
	}
	sent := time.Now()
	err := l.leaser.ExtendLease(ctx, l.req, l.token, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = err
	switch {
	case l.over != nil:
		return l.over
	case errors.Is(err, ErrLeaseLost):
		l.lose("another attempt has taken the claim over, or it was released or swept")
		return l.over
	case err != nil:
		return err
	}
	if until := sent.Add(d); until.After(l.until) {
		l.until = until
	}
	l.schedule()
	return nil
}

// hold begins the heartbeat of a claim that was made after since. It returns
// the context of work, and what ends both.
func (l *Lease) hold(ctx context.Context, since time.Time, ceiling time.Duration) (context.Context, func()) {
	work, cancelWork := context.WithCancelCause(ctx)
	beats, cancelBeats := context.WithCancel(context.WithoutCancel(ctx))
	l.beats, l.work = beats, cancelWork
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until, l.ceiling = since.Add(l.req.Lease), since.Add(ceiling)
	l.timer = time.AfterFunc(time.Hour, l.beat)
	l.schedule()
	return work, func() {
		l.end()
		cancelBeats()
		cancelWork(nil)
	}
}

// end stops the heartbeat.
func (l *Lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	if l.over == nil {
		l.over = errEnded
	}
}

// schedule sets the time of the next beat: when a third of the lease has passed.
func (l *Lease) schedule() { l.timer.Reset(time.Until(l.until.Add(-l.req.Lease / 3 * 2))) }

// retries is how often an extension that fails is tried in a third of a lease.
const retries = 4

// beat extends the lease, or cancels work when it has ended.
func (l *Lease) beat() {
	until := l.Deadline()
	now := time.Now()
	beyond := !now.Before(l.ceiling)
	if !beyond && now.Before(until) {
		ctx, cancel := context.WithDeadline(l.beats, until)
		err := l.extend(ctx, l.req.Lease)
		cancel()
		if err == nil {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch now := time.Now(); {
	case l.over != nil:
	case now.Before(l.until):
		l.timer.Reset(min(l.req.Lease/3/retries, l.until.Sub(now)))
	case beyond:
		l.lose("the handler has run for longer than leases are extended")
	case l.failed != nil:
		l.lose(fmt.Sprintf("it ended before it was extended: %v", l.failed))
	default:
		l.lose("it ended before it was extended: the store's answer or this process was held up")
	}
}

// lose cancels work.
func (l *Lease) lose(why string) {
	l.over = fmt.Errorf("%w: %s", ErrLeaseLost, why)
	l.timer.Stop()
	l.work(l.over)
}

// fenced is the error of an attempt whose claim has gone: taken over by another
// one, which may have ended since, released or swept.
func (l *Lease) fenced(cause error) error {
	return &Error{
		Code:   CodeOutcomeUnknown,
		Detail: "the request lost its lease while it was carried out; the same request with the same key gets the answer of the attempt that took over, or is carried out again",
		Err:    cause,
	}
}

// release frees the key. Before the lease has passed nobody can have taken the
// claim over: if it is gone then, a try whose answer was lost has deleted it.
func (l *Lease) release() error {
	tried := false
	return l.settle(func(ctx context.Context) error {
		err := l.leaser.ReleaseLease(ctx, l.req, l.token)
		if tried && errors.Is(err, ErrLeaseLost) && time.Now().Before(l.Deadline()) {
			return nil
		}
		tried = true
		return err
	})
}

// settleTimeout bounds how long the end of a claim is tried.
const settleTimeout = 5 * time.Second

// settle ends the lease by a step of the store, which the caller of the request
// cannot cancel.
func (l *Lease) settle(step func(context.Context) error) error {
	l.end()
	return settle(l.beats, step)
}

// settle takes a step of the store, and repeats it while the store cannot be
// reached.
func settle(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := step(ctx)
		if err == nil || !errors.Is(err, ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
