package retry

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Pauses fill their range, and no more of it.
//
// Covers CLI-08.
func TestFullJitter(t *testing.T) {
	t.Parallel()
	const n = 4000
	pause := FullJitter(200*time.Millisecond, 10*time.Second)
	for retry, bound := range map[int]time.Duration{
		0:           200 * time.Millisecond,
		1:           200 * time.Millisecond,
		2:           400 * time.Millisecond,
		3:           800 * time.Millisecond,
		6:           6400 * time.Millisecond,
		7:           10 * time.Second,
		math.MaxInt: 10 * time.Second,
	} {
		var quarters [4]int
		for range n {
			d := pause(retry)
			if d < 0 || d >= bound {
				t.Fatalf("retry %d: %v is not below %v", retry, d, bound)
			}
			quarters[4*d/bound]++
		}
		// The standard deviation of each is 27.
		for i, got := range quarters {
			if got < n/4-200 || got > n/4+200 {
				t.Errorf("retry %d: %d of %d pauses in quarter %d", retry, got, n, i+1)
			}
		}
	}
}

// A thousand clients that fail in the same moment spread out, also when all are
// told the same Retry-After.
//
// Covers CLI-08.
func TestClientsDoNotComeBackTogether(t *testing.T) {
	t.Parallel()
	for _, retryAfter := range []string{"", "3"} {
		var pauses []time.Duration
		for range 1000 {
			c := call{sender: New(), attempts: 1, key: "k"}
			p, err := c.next(t.Context(), result{again: true, response: &http.Response{Header: http.Header{"Retry-After": {retryAfter}}}})
			if err != nil {
				t.Fatal(err)
			}
			pauses = append(pauses, p)
		}
		slices.Sort(pauses)
		if spread := pauses[len(pauses)-1] - pauses[0]; spread < 190*time.Millisecond || spread >= 200*time.Millisecond {
			t.Errorf("Retry-After %q: the first retries spread over %v", retryAfter, spread)
		}
		most := 0 // in any 10 ms of 200
		for i, j := 0, 0; j < len(pauses); j++ {
			for pauses[j]-pauses[i] > 10*time.Millisecond {
				i++
			}
			most = max(most, j-i+1)
		}
		if most > 120 {
			t.Errorf("Retry-After %q: %d of 1000 come back within 10 ms", retryAfter, most)
		}
	}
}

// Odd bounds make no pause at all, or the limit.
func TestFullJitterBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ base, limit time.Duration }{{0, time.Second}, {time.Second, 0}, {-1, time.Second}, {time.Second, -1}} {
		if d := FullJitter(c.base, c.limit)(3); d != 0 {
			t.Errorf("%+v: %v", c, d)
		}
	}
	if d := FullJitter(time.Second, math.MaxInt64)(1000); d < 0 {
		t.Errorf("the longest limit: %v", d)
	}
	for range 100 {
		if d := FullJitter(time.Hour, time.Minute)(1); d < 0 || d >= time.Minute {
			t.Fatalf("a base above the limit: %v", d)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"1":                              time.Second,
		" 7 ":                            7 * time.Second,
		"0120":                           2 * time.Minute,
		"2147483647":                     longest,
		"2147483648":                     longest,
		"99999999999999999999999999":     longest,
		"-1":                             0,
		"+1":                             0,
		"1.5":                            0,
		"1s":                             0,
		"soon":                           0,
		"\u0661":                         0, // a digit, and none of RFC 9110
		"Fri, 02 Jan 2026 03:04:15 GMT":  10 * time.Second,
		"Friday, 02-Jan-26 03:04:15 GMT": 10 * time.Second,
		"Fri Jan  2 03:04:15 2026":       10 * time.Second,
		"Fri, 02 Jan 2026 03:04:05 GMT":  0,
		"Fri, 02 Jan 2026 03:04:00 GMT":  0,
		"Fri, 31 Dec 9999 23:59:59 GMT":  longest,
		"Fri, 02 Jan 2026 03:04:15 CET":  0,
		"2026-01-02T03:04:15Z":           0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	for date, want := range map[string]time.Duration{
		"Fri, 02 Jan 2026 03:04:10 GMT": 5 * time.Second,
		"Thu, 01 Jan 1970 00:00:00 GMT": time.Date(2026, 1, 2, 3, 4, 15, 0, time.UTC).Sub(time.Unix(0, 0)), // a server's clock of its own
		"no date":                       10 * time.Second,
	} {
		h := http.Header{"Retry-After": {"Fri, 02 Jan 2026 03:04:15 GMT"}, "Date": {date}}
		if got := retryAfter(h, now); got != want {
			t.Errorf("Date %q: %v, want %v", date, got, want)
		}
	}
	if got := retryAfter(http.Header{"Retry-After": {"3", "9"}}, now); got != 3*time.Second {
		t.Errorf("two fields: %v", got)
	}
}

// Nothing that a server sends makes a pause below zero, or one to which a
// backoff cannot be added.
func FuzzRetryAfter(f *testing.F) {
	for _, value := range []string{"", "0", "120", "-1", "1.5", "99999999999999999999", "Fri, 02 Jan 2026 03:04:15 GMT", "Friday, 02-Jan-26 03:04:15 GMT", "Fri Jan  2 03:04:15 2026", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT"} {
		f.Add(value, "Fri, 02 Jan 2026 03:04:05 GMT")
		f.Add(value, "")
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		if d := retryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now); d < 0 || d > longest {
			t.Errorf("%q at %q: %v", value, date, d)
		}
	})
}
