// Package optional holds what the checks find that are off by default.
package optional

import (
	"context"
	"errors"
	"net/http"

	"shop/api"

	"github.com/jackc/pgx/v5"
)

func handle(ctx context.Context, tx pgx.Tx, req api.CreatePaymentIdempotentRequest) error {
	http.Post("http://localhost/charges", "text/plain", nil) // want `this handler sends a request that nothing makes safe to repeat`
	r, err := http.NewRequest("POST", "http://localhost/charges", nil)
	if err != nil {
		return err
	}
	_, err = http.DefaultClient.Do(r) // want `this handler sends a request`
	http.Get("http://localhost/rates")
	return err
}

func outside() {
	http.Post("http://localhost/charges", "text/plain", nil)
}

func repeated(call func() error) error { // want repeated:"repeats\\[0\\]"
	for range 3 {
		err := call() // want `this call is repeated until it succeeds`
		if err == nil {
			return nil
		}
	}
	return errors.New("gave up")
}
