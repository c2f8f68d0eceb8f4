// Pay makes a payment through the generated client. Run it twice with the same
// order, against go run ./examples/payments, and the second one is a replay:
//
//	go run ./examples/payments/pay order-1001 alice bob 250
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/idemgen/idemgen/examples/payments/api"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/retry"
)

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "address of the payments service")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: pay [-server URL] ORDER FROM TO AMOUNT")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 4 {
		flag.Usage()
		os.Exit(2)
	}
	amount, err := strconv.ParseInt(flag.Arg(3), 10, 64)
	if err == nil {
		err = pay(os.Stdout, *server, flag.Arg(0), flag.Arg(1), flag.Arg(2), amount)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "pay:", err)
		os.Exit(1)
	}
}

// pay pays for an order. The order's name is the key: whoever pays for the same
// order again, after a crash too, sends the same key.
func pay(out io.Writer, server, order, from, to string, amount int64) error {
	client, err := api.NewIdempotentClient(server,
		retry.WithAttemptTimeout(5*time.Second),
		retry.WithObserver(retry.LogTo(slog.Default())),
		api.WithClientOptions(api.WithRequestEditorFn(authenticate)),
	)
	if err != nil {
		return err
	}
	key, err := api.ParseCreatePaymentIdempotencyKey(order)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	answer, err := client.CreatePayment(ctx, api.NewCreatePaymentIdempotentRequest(key, api.CreatePaymentInput{
		AccountId: from,
		Body:      api.CreatePaymentJSONRequestBody{To: to, Amount: amount},
	}))
	switch {
	case errors.Is(err, idempotency.ErrOutcomeUnknown):
		return fmt.Errorf("not known whether it was paid; pay for the same order again to find out: %w", err)
	case err != nil:
		return err
	case answer.JSON201 == nil:
		return fmt.Errorf("not paid: %s: %s", answer.Status(), answer.Body)
	}
	fmt.Fprintf(out, "payment %d: %d from %s to %s (replayed: %t)\n", answer.JSON201.Id, answer.JSON201.Amount, from, to, answer.Replayed())
	return nil
}

func authenticate(_ context.Context, req *http.Request) error {
	req.Header.Set("X-Api-Key", "demo")
	return nil
}
