package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Answer is what a request was answered.
type Answer struct {
	Status   int
	Replayed bool
	Body     string
	Location string
}

// client keeps enough connections for a crowd.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// Pay posts one payment from alice to bob.
func Pay(ctx context.Context, url, key string, amount int) (Answer, error) {
	return Post(ctx, url+"/accounts/alice/payments", key, fmt.Sprintf(`{"to":"bob","amount":%d}`, amount))
}

// Post sends one JSON body under key, once: net/http does not repeat it.
func Post(ctx context.Context, url, key, body string) (Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Api-Key", "e2e")
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	answered, err := io.ReadAll(resp.Body)
	return Answer{
		Status:   resp.StatusCode,
		Replayed: resp.Header.Get("Idempotent-Replayed") == "true",
		Body:     string(answered),
		Location: resp.Header.Get("Location"),
	}, err
}
