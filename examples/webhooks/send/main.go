// Send sends an event to the shop, signed as Standard Webhooks are. README.md
// of the example says how to run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8080/hooks/payment", "where the shop receives events")
	flag.Parse()
	if err := run(*url, os.Getenv("WEBHOOK_SECRET"), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "send:", err)
		os.Exit(1)
	}
}

func run(url, secret string, args []string) error {
	if len(args) != 2 || secret == "" {
		return errors.New("usage: WEBHOOK_SECRET=whsec_... send [-url URL] EVENT-ID JSON")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(args[1]))
	if err != nil {
		return err
	}
	if err := sign(req, secret, args[0], args[1]); err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	fmt.Printf("%s (replayed: %t)\n%s", resp.Status, resp.Header.Get("Idempotent-Replayed") == "true", answer)
	return nil
}

// sign makes req a delivery of the event id, at this time.
func sign(req *http.Request, secret, id, body string) error {
	sender, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return err
	}
	now := time.Now()
	signature, err := sender.Sign(id, now, []byte(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	req.Header.Set("Webhook-Signature", signature)
	return nil
}
