// Package retry has the shape of retry-go.
package retry

type RetryableFunc func() error

type Option func()

func Attempts(attempts uint) Option { return nil }

func Do(retryableFunc RetryableFunc, opts ...Option) error { return retryableFunc() }
