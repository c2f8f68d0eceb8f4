package bad

import (
	"context"
	"errors"
	"fmt"
	"time"

	"shop/api"
	"shop/keys"
	"shop/retry"

	avast "github.com/avast/retry-go/v4"
	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
)

var errBusy = errors.New("busy")

func retryable(err error) bool { return errors.Is(err, errBusy) }

func counting(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) (resp *api.CreatePaymentResponse, err error) {
	for attempt := 0; attempt < 3; attempt++ {
		key := api.NewCreatePaymentIdempotencyKey() // want `each attempt of this retry gets a new key`
		resp, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		if err == nil {
			return resp, nil
		}
		time.Sleep(time.Duration(attempt) * time.Second)
	}
	return nil, err
}

func ranging(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	var last error
	for range 3 {
		attemptCtx, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.CreatePayment(attemptCtx, api.NewCreatePaymentIdempotentRequest(idempotency.NewKey[api.CreatePaymentOp](), in)) // want `each attempt of this retry`
		cancel()
		if err != nil {
			last = err
			continue
		}
		return nil
	}
	return last
}

func endless(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	for {
		req, err := keys.Request(in) // want `each attempt of this retry`
		if err != nil {
			return err
		}
		if _, err = client.CreatePayment(ctx, req); err == nil || !retryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func pauses(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	for _, pause := range []time.Duration{time.Second, time.Minute} {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
		if retryable(err) {
			time.Sleep(pause)
			continue
		}
		return err
	}
	return errBusy
}

func untilNoError(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	err := errBusy
	for i := 0; err != nil && i < 3; i++ {
		_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
	}
}

func labeled(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
attempts:
	for i := 0; i < 3; i++ {
		req := api.NewCreatePaymentIdempotentRequest(keys.Payment(), in) // want `each attempt of this retry`
		_, err := client.CreatePayment(ctx, req)
		switch {
		case err == nil:
			break attempts
		case !retryable(err):
			panic(err)
		}
	}
}

func replaced(ctx context.Context, client api.IdempotentClient, req api.CreatePaymentIdempotentRequest) error {
	for {
		req.IdempotencyKey = api.NewCreatePaymentIdempotencyKey() // want `each attempt of this retry`
		_, err := client.CreatePayment(ctx, req)
		if err == nil {
			return nil
		}
	}
}

func newRequest() api.CreatePaymentIdempotentRequest { // want newRequest:"fresh"
	return api.NewCreatePaymentIdempotentRequest(keys.Payment(), api.CreatePaymentInput{})
}

func helped(ctx context.Context, client api.IdempotentClient) {
	for range 3 {
		if _, err := client.CreatePayment(ctx, newRequest()); err == nil { // want `each attempt of this retry`
			return
		}
	}
}

type till interface {
	TakePayment(ctx context.Context, req api.CreatePaymentIdempotentRequest) error
}

func taken(ctx context.Context, t till, in api.CreatePaymentInput) {
	for range 3 {
		if err := t.TakePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err == nil { // want `each attempt of this retry`
			return
		}
	}
}

func charge(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error { // want charge:"mints"
	req := api.NewCreatePaymentIdempotentRequest(api.NewCreatePaymentIdempotencyKey(), in)
	_, err := client.CreatePayment(ctx, req)
	return err
}

func mintedInLoop(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	for range 3 {
		if err := charge(ctx, client, in); err == nil { // want `charge makes a new key at each call and is repeated here`
			return
		}
	}
}

func mintedInFunction(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		return charge(ctx, client, in) // want `charge makes a new key at each call and is repeated here`
	})
}

type payer struct {
	client api.IdempotentClient
	last   error
}

func (p *payer) pay(ctx context.Context, in api.CreatePaymentInput) {
	for range 3 {
		_, err := p.client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
		if err == nil {
			return
		}
		p.last = err
	}
}

func random(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	for {
		key := idempotency.MustParseKey[api.CreatePaymentOp]("payment-" + uuid.NewString()) // want `each attempt of this retry`
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		if err == nil {
			return nil
		}
	}
}

func inTransaction(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	for range 3 {
		err := retry.Once(func() error {
			_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
			return err
		})
		if err == nil {
			return nil
		}
	}
	return errBusy
}

func repeatedByOwnFunction(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		key := api.NewCreatePaymentIdempotencyKey() // want `each attempt of this retry gets a new key, so a retry is another operation: make the key outside the function`
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		return err
	})
}

func repeatedByWayOfAnother(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) (*api.CreatePaymentResponse, error) {
	return retry.Value(ctx, func() (*api.CreatePaymentResponse, error) {
		return client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
	})
}

func repeatedByBackoff(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) (*api.CreatePaymentResponse, error) {
	return backoff.Retry(ctx, func() (*api.CreatePaymentResponse, error) {
		return client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
	})
}

func repeatedByRetryGo(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	return avast.Do(avast.RetryableFunc(func() error {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)) // want `each attempt of this retry`
		return err
	}), avast.Attempts(3))
}

func numbered(ctx context.Context, client api.IdempotentClient, order string, in api.CreatePaymentInput) error {
	for attempt := 0; ; attempt++ {
		key := idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprintf("%s-%d", order, attempt)) // want `this key is made from the number of the attempt`
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		if err == nil || attempt == 3 {
			return err
		}
	}
}

func counted(ctx context.Context, client api.IdempotentClient, order string, in api.CreatePaymentInput) error {
	tries := 0
	for {
		tries++
		text := fmt.Sprint(order, tries)
		key, err := api.ParseCreatePaymentIdempotencyKey(text) // want `this key is made from the number of the attempt`
		if err != nil {
			return err
		}
		if _, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in)); err == nil {
			return nil
		}
	}
}

type payArgs struct{ Order string }

func (payArgs) Kind() string { return "pay" }

func work(ctx context.Context, client api.IdempotentClient, job *river.Job[payArgs]) error {
	key, err := api.ParseCreatePaymentIdempotencyKey(fmt.Sprintf("%s-%d", job.Args.Order, job.Attempt)) // want `this key is made from the number of the attempt`
	if err != nil {
		return err
	}
	_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, api.CreatePaymentInput{}))
	return err
}

var _ = rivertype.JobRow{}
