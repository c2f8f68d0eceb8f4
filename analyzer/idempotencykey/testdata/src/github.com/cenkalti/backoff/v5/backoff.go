// Package backoff has the shape of backoff's version 5.
package backoff

import "context"

type Operation[T any] func() (T, error)

type RetryOption func()

func Retry[T any](ctx context.Context, operation Operation[T], opts ...RetryOption) (T, error) {
	for {
		res, err := operation()
		if err == nil {
			return res, nil
		}
	}
}
