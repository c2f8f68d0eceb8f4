// Package good holds correct programs that look like mistakes.
package good

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"time"

	"shop/api"
	"shop/db"
	"shop/keys"
	"shop/retry"

	"github.com/google/uuid"
	"github.com/idemgen/idemgen/runtime/idempotency"
)

var errTaken = errors.New("taken")

func onceBeforeTheLoop(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	req := api.NewCreatePaymentIdempotentRequest(api.NewCreatePaymentIdempotencyKey(), in)
	var err error
	for attempt := 0; attempt < 3; attempt++ {
		if _, err = client.CreatePayment(ctx, req); err == nil {
			return nil
		}
	}
	return err
}

func onceInsideForEachOrder(ctx context.Context, client api.IdempotentClient, orders []api.CreatePaymentInput) {
	for _, in := range orders {
		key := api.NewCreatePaymentIdempotencyKey()
		for range 3 {
			if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in)); err == nil {
				break
			}
		}
	}
}

func batch(ctx context.Context, client api.IdempotentClient, orders []api.CreatePaymentInput) error {
	for i := 0; i < len(orders); i++ {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), orders[i]))
		if err != nil {
			continue
		}
		return nil // the first that goes through
	}
	return nil
}

func load(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	for i := range 1000 {
		key := idempotency.MustParseKey[api.CreatePaymentOp]("load-" + strconv.Itoa(i))
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in)); err != nil {
			return err
		}
	}
	return nil
}

func worker(ctx context.Context, client api.IdempotentClient, orders <-chan api.CreatePaymentInput) error {
	for {
		in := <-orders
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		if err != nil {
			continue
		}
		return nil
	}
}

type queue interface {
	Next() (api.CreatePaymentInput, error)
}

func drain(ctx context.Context, client api.IdempotentClient, q queue) error {
	for {
		in, err := q.Next()
		if err != nil {
			return err
		}
		if _, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err == nil {
			return nil
		}
	}
}

func fanOut(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	var group sync.WaitGroup
	for range 10 {
		group.Add(1)
		go func() {
			defer group.Done()
			_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
			if err == nil {
				return
			}
		}()
	}
	group.Wait()
}

func freeName(ctx context.Context, client api.IdempotentClient, name string) (string, error) {
	for n := 1; n < 10; n++ {
		candidate := fmt.Sprintf("%s-%d", name, n)
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), api.CreatePaymentInput{AccountId: candidate}))
		if errors.Is(err, errTaken) {
			continue
		}
		return candidate, err
	}
	return "", errTaken
}

func randomName(ctx context.Context, client api.IdempotentClient) error {
	for {
		in := api.CreatePaymentInput{AccountId: uuid.NewString()}
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err == nil {
			return nil
		}
	}
}

func drawnName(ctx context.Context, client api.IdempotentClient) error {
	for {
		in := api.CreatePaymentInput{Amount: rand.Int64N(1000)}
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err == nil {
			return nil
		}
	}
}

func pages(ctx context.Context, client api.IdempotentClient) error {
	in := api.CreatePaymentInput{}
	for {
		resp, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		if err != nil {
			return err
		}
		in.Amount = int64(resp.StatusCode())
		if in.Amount == 0 {
			return nil
		}
	}
}

var errEnd = errors.New("end")

func untilTheEnd(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	for {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		if err != nil && !errors.Is(err, errEnd) {
			return err
		}
		if errors.Is(err, errEnd) {
			return nil
		}
	}
}

func untilTold(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	for {
		resp, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		if err != nil {
			fmt.Println(err)
		} else if resp.StatusCode() == 204 {
			return
		}
	}
}

func upwards(ctx context.Context, client api.IdempotentClient, account string) error {
	for {
		in := api.CreatePaymentInput{AccountId: account}
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err == nil {
			return nil
		}
		account = parentOf(account)
	}
}

func parentOf(account string) string { return account + "/.." }

func parts(ctx context.Context, client api.IdempotentClient, text string) error {
	n := 0
	for {
		in := api.CreatePaymentInput{AccountId: text[:n]}
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err == nil {
			return nil
		}
		n = len(text) - n
	}
}

func inner(ctx context.Context, client api.IdempotentClient, orders []api.CreatePaymentInput, in api.CreatePaymentInput) {
	for {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		if err == nil {
			for _, order := range orders {
				if order.Amount == 0 {
					return
				}
			}
		}
	}
}

func halves(ctx context.Context, client api.IdempotentClient, amount int64) error {
	for {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), api.CreatePaymentInput{Amount: amount}))
		if err == nil {
			return nil
		}
		amount /= 2
	}
}

func ticker(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	tick := time.NewTicker(time.Hour)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in)); err != nil {
			fmt.Println(err)
		}
	}
}

func eachOrder(ctx context.Context, client api.IdempotentClient, orders []string) error {
	return retry.Each(orders, func(order string) error {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), api.CreatePaymentInput{AccountId: order}))
		return err
	})
}

func once(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	return retry.Once(func() error {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		return err
	})
}

func repeatedWithOneKey(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	key := keys.Payment()
	return retry.Do(ctx, func(ctx context.Context) error {
		_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
		return err
	})
}

func repeatedWholeSale(ctx context.Context, client api.IdempotentClient, q queue) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		in, err := q.Next()
		if err != nil {
			return err
		}
		_, err = client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
		return err
	})
}

func charge(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error { // want charge:"mints"
	_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(keys.Payment(), in))
	return err
}

func chargedOnce(ctx context.Context, client api.IdempotentClient, orders []api.CreatePaymentInput) error {
	for _, in := range orders {
		if err := charge(ctx, client, in); err == nil {
			return nil
		}
	}
	return retry.Each(nil, func(order string) error {
		return charge(ctx, client, api.CreatePaymentInput{AccountId: order})
	})
}

func chargedTwice(ctx context.Context, client api.IdempotentClient, q queue) error {
	return retry.Do(ctx, func(ctx context.Context) error {
		in, err := q.Next()
		if err != nil {
			return err
		}
		return charge(ctx, client, in)
	})
}

type account struct {
	key api.CreatePaymentIdempotencyKey
}

func (a *account) chargeKept(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) error {
	key := a.key
	if key.IsZero() {
		key = keys.Payment()
		a.key = key
	}
	_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, in))
	return err
}

func (a *account) chargedKept(ctx context.Context, client api.IdempotentClient, in api.CreatePaymentInput) {
	for range 3 {
		if err := a.chargeKept(ctx, client, in); err == nil {
			return
		}
	}
}

func orNew(order string) api.CreatePaymentIdempotencyKey { return keys.Of(order) }

func retriedOrNew(ctx context.Context, client api.IdempotentClient, order string, in api.CreatePaymentInput) error {
	for {
		if _, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(orNew(order), in)); err == nil {
			return nil
		}
	}
}

// Zero keys that are looked at, filled or given back.

func zeroOnError(order string) (api.CreatePaymentIdempotentRequest, error) {
	if order == "" {
		return api.CreatePaymentIdempotentRequest{}, errors.New("no order")
	}
	var key api.CreatePaymentIdempotencyKey
	return api.NewCreatePaymentIdempotentRequest(key, api.CreatePaymentInput{}), key.UnmarshalText([]byte(order))
}

func compared(key api.CreatePaymentIdempotencyKey, req api.CreatePaymentIdempotentRequest) bool {
	var none api.CreatePaymentIdempotencyKey
	return key == none || key.Equal(none) || key == (api.CreatePaymentIdempotencyKey{}) ||
		req.Equal(api.CreatePaymentIdempotentRequest{}) || reflect.DeepEqual(req, api.CreatePaymentIdempotentRequest{}) ||
		contains([]api.CreatePaymentIdempotencyKey{key}, api.CreatePaymentIdempotencyKey{})
}

func contains[T comparable](list []T, v T) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

func scanned(row *sql.Row, client api.IdempotentClient, ctx context.Context) error {
	var key api.CreatePaymentIdempotencyKey
	if err := row.Scan(&key); err != nil {
		return err
	}
	_, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, api.CreatePaymentInput{}))
	return err
}

func decided(ctx context.Context, client api.IdempotentClient, stored string) error {
	var key api.CreatePaymentIdempotencyKey
	if stored != "" {
		key = idempotency.MustParseKey[api.CreatePaymentOp](stored)
	} else {
		key = keys.Payment()
	}
	var req api.CreatePaymentIdempotentRequest
	func() { req = api.NewCreatePaymentIdempotentRequest(key, api.CreatePaymentInput{}) }()
	_, err := client.CreatePayment(ctx, req)
	return err
}

func restored(ctx context.Context, client api.IdempotentClient, envelope []byte) error {
	var req api.CreatePaymentIdempotentRequest
	if err := req.UnmarshalJSON(envelope); err != nil {
		return err
	}
	_, err := client.CreatePayment(ctx, req)
	return err
}

// A struct of one's own is no request, whatever its fields are called.
type order struct {
	IdempotencyKey api.CreatePaymentIdempotencyKey
	Amount         int64
}

func ordered(key api.CreatePaymentIdempotencyKey, save func(order), keep interface{ Keep(order) }) {
	keep.Keep(order{IdempotencyKey: key, Amount: 1})
	keep.Keep(order{})
}

// Clocks that name a day, an hour or what a database says.

func daily(flat string) api.CreatePaymentIdempotencyKey {
	return idempotency.MustParseKey[api.CreatePaymentOp]("rent-" + flat + time.Now().UTC().Format("2006-01-02"))
}

func hourly(meter string) api.CreatePaymentIdempotencyKey {
	hour := time.Now().UTC().Truncate(time.Hour)
	return idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprintf("%s-%d", meter, hour.Unix()))
}

func weekly(flat string) api.CreatePaymentIdempotencyKey {
	year, week := time.Now().ISOWeek()
	return idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprint(flat, year, week))
}

func dayNumber(flat string) api.CreatePaymentIdempotencyKey {
	return idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprint(flat, time.Now().Unix()/86400))
}

func created(order string, at time.Time) api.CreatePaymentIdempotencyKey {
	return idempotency.MustParseKey[api.CreatePaymentOp](fmt.Sprint(order, at.UnixNano()))
}

func numberedByTheShop(next func(time.Time) string) api.CreatePaymentIdempotencyKey {
	return idempotency.MustParseKey[api.CreatePaymentOp](next(time.Now()))
}

var _ = db.New
