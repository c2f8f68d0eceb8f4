package main

import (
	"bytes"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// verify lets those events pass that sender has signed, no more than five
// minutes ago. It leaves the body to be read again.
func verify(sender *standardwebhooks.Webhook) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
			if err != nil {
				http.Error(w, "the body cannot be read", http.StatusBadRequest)
				return
			}
			if err := sender.Verify(body, r.Header); err != nil {
				http.Error(w, "the signature is wrong", http.StatusUnauthorized)
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		})
	}
}
