package retry

import (
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FullJitter returns pauses for [WithBackoff]: before retry n, a random time
// from zero to base times 2 to the power n-1, or to limit if that is less.
// Clients that fail together so do not come back together.
func FullJitter(base, limit time.Duration) func(retry int) time.Duration {
	return func(retry int) time.Duration {
		bound := base
		for range retry - 1 {
			if bound >= limit/2 {
				bound = limit
				break
			}
			bound *= 2
		}
		if bound = min(bound, limit); bound <= 0 {
			return 0
		}
		return rand.N(bound)
	}
}

// longest is the longest pause that an answer can ask for, 68 years: twice as
// much and a backoff still fit a Duration.
const longest = (1<<31 - 1) * time.Second

// retryAfter returns the pause that an answer asks for: Retry-After in
// seconds, or as a date (RFC 9110 section 10.2.3); 0 where it asks for none.
// A date counts from the answer's own Date where that is given, so that a
// clock that is wrong here or there does not matter.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if value == "" {
		return 0
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return longest
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), longest)
}
