package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Answer is what a payment was answered.
type Answer struct {
	Status   int
	Replayed bool
	Body     string
	Location string
}

// client keeps enough connections for a crowd.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Pay sends one payment from alice to bob, once: net/http does not repeat it.
func Pay(ctx context.Context, url, key string, amount int) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/accounts/alice/payments", strings.NewReader(fmt.Sprintf(`{"to":"bob","amount":%d}`, amount)))
	if err != nil {
		return Answer{}, err
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "e2e")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return Answer{
		Status:   resp.StatusCode,
		Replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		Body:     string(body),
		Location: resp.Header.Get("Location"),
	}, err
}
