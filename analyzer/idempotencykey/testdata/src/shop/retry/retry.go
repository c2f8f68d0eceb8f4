// Package retry repeats functions.
package retry

import (
	"context"
	"time"
)

// Do repeats fn until it returns no error.
func Do(ctx context.Context, fn func(ctx context.Context) error) error { // want Do:"repeats\\[1\\]"
	var err error
	for attempt := 0; attempt < 4; attempt++ {
		if err = fn(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return err
}

// Value repeats fn by way of Do.
func Value[T any](ctx context.Context, fn func() (T, error)) (T, error) { // want Value:"repeats\\[1\\]"
	var value T
	err := Do(ctx, func(context.Context) error {
		v, err := fn()
		value = v
		return err
	})
	return value, err
}

// Each calls fn once for each order.
func Each(orders []string, fn func(order string) error) error {
	for _, order := range orders {
		if err := fn(order); err != nil {
			return err
		}
	}
	return nil
}

// Once calls fn and gives up.
func Once(fn func() error) error { return fn() }
