package answercodec

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// maxAnswers is how many answers are encrypted with one data key, and half of
	// it how many before another one is made.
	maxAnswers = 1 << 20
	// outage is for how many times its age a data key is used if no other one can
	// be made.
	outage = 12
	// maxUnwrapped is how many data keys are kept for reading.
	maxUnwrapped = 1000
	// keysTimeout bounds each call of Keys.
	keysTimeout = 5 * time.Second
	// keysPause is the time after which a call that has failed is repeated.
	keysPause = time.Second
)

// dataKey is one that this process encrypts with.
type dataKey struct {
	*sealer
	keyID   string
	wrapped []byte
	made    time.Time
	answers int
}

// call is one of Keys that is under way or over. What it has returned may be read
// when done is closed.
type call[T any] struct {
	done  chan struct{}
	until time.Time // its outcome holds; guarded by dataKeys.mu
	value T
	err   error
}

// wait returns the outcome, unless ctx ends before.
func (c *call[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// dataKeys are the data keys of a process.
type dataKeys struct {
	keys   Keys
	age    time.Duration
	logger *slog.Logger

	mu        sync.Mutex
	current   *dataKey
	renewal   *call[*dataKey]
	unwrapped map[string]*call[*sealer]
}

// do begins a call of Keys, whose outcome holds for as long as a data key is
// used, or a moment if it is an error. d.mu is held.
func do[T any](ctx context.Context, d *dataKeys, f func(context.Context) (T, error), then func(T)) *call[T] {
	c := &call[T]{done: make(chan struct{}), until: time.Now().Add(2 * keysTimeout)}
	go func() {
		// It is for other requests as well.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
		defer cancel()
		value, err := try(ctx, d.logger, f)
		d.mu.Lock()
		defer d.mu.Unlock()
		c.value, c.err = value, err
		c.until = time.Now().Add(d.age)
		if err != nil {
			c.until = time.Now().Add(keysPause)
		} else {
			then(value)
		}
		close(c.done)
	}()
	return c
}

// try calls f. A panic of Keys would end the process, since no one else can
// recover it here.
func try[T any](ctx context.Context, logger *slog.Logger, f func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			logger.ErrorContext(ctx, "a call of Keys has panicked", slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			err = fmt.Errorf("answercodec: the call of Keys has panicked: %v", p)
		}
	}()
	return f(ctx)
}

// toWrite returns a data key to encrypt one answer with.
func (d *dataKeys) toWrite(ctx context.Context) (*dataKey, error) {
	d.mu.Lock()
	k, now := d.current, time.Now()
	usable := k != nil && now.Sub(k.made) < outage*d.age && k.answers < maxAnswers
	fresh := usable && now.Sub(k.made) < d.age && k.answers < maxAnswers/2
	if !fresh && (d.renewal == nil || !now.Before(d.renewal.until)) {
		d.renewal = do(ctx, d, func(ctx context.Context) (*dataKey, error) {
			next, err := d.make(ctx)
			if err != nil && usable {
				d.logger.WarnContext(ctx, "no new data key could be made, and answers are encrypted with the last one",
					slog.Time("made", k.made), slog.Time("until", k.made.Add(outage*d.age)), slog.Any("error", err))
			}
			return next, err
		}, func(k *dataKey) { d.current, d.renewal = k, nil })
	}
	renewal := d.renewal
	if usable {
		k.answers++
	}
	d.mu.Unlock()
	if usable {
		return k, nil
	}
	k, err := renewal.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("answercodec: no data key could be had: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	k.answers++
	return k, nil
}

// make makes a data key.
func (d *dataKeys) make(ctx context.Context) (*dataKey, error) {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	id, wrapped, err := d.keys.Wrap(ctx, key)
	switch {
	case err != nil:
		return nil, err
	case id == "" || len(id) > 255:
		return nil, fmt.Errorf("answercodec: Wrap has returned the key's id %q, which must have 1 to 255 bytes", id)
	}
	return &dataKey{sealer: newSealer(key), keyID: id, wrapped: bytes.Clone(wrapped), made: time.Now()}, nil
}

// toRead returns what answers under a data key are read with.
func (d *dataKeys) toRead(ctx context.Context, keyID string, wrapped []byte) (*sealer, error) {
	name := keyID + "\x00" + string(wrapped)
	d.mu.Lock()
	c, now := d.unwrapped[name], time.Now()
	if c == nil || !now.Before(c.until) {
		d.makeRoom(now)
		c = do(ctx, d, func(ctx context.Context) (*sealer, error) { return d.unwrap(ctx, keyID, wrapped) }, func(*sealer) {})
		d.unwrapped[name] = c
	}
	d.mu.Unlock()
	return c.wait(ctx)
}

// makeRoom drops data keys that are over, and one that is not if they are too
// many.
func (d *dataKeys) makeRoom(now time.Time) {
	if len(d.unwrapped) < maxUnwrapped {
		return
	}
	for name, c := range d.unwrapped {
		if !now.Before(c.until) {
			delete(d.unwrapped, name)
		}
	}
	for name := range d.unwrapped {
		if len(d.unwrapped) < maxUnwrapped {
			return
		}
		delete(d.unwrapped, name)
	}
}

func (d *dataKeys) unwrap(ctx context.Context, keyID string, wrapped []byte) (*sealer, error) {
	key, err := d.keys.Unwrap(ctx, keyID, bytes.Clone(wrapped))
	switch {
	case err != nil:
		return nil, err
	case len(key) != keySize:
		return nil, fmt.Errorf("answercodec: Unwrap has returned a data key of %d bytes, and they have %d", len(key), keySize)
	}
	return newSealer(key), nil
}

// check finds out whether data keys can be wrapped and unwrapped.
func (d *dataKeys) check(ctx context.Context) error {
	k, err := d.toWrite(ctx)
	if err != nil {
		return err
	}
	s, err := d.toRead(ctx, k.keyID, k.wrapped)
	if err != nil {
		return fmt.Errorf("answercodec: a data key was wrapped with the key %q and cannot be unwrapped: %w", k.keyID, err)
	}
	if _, err := s.open(k.seal(nil, nil, nil), nil); err != nil {
		return errors.New("answercodec: Unwrap has returned another data key than Wrap was given")
	}
	return nil
}
