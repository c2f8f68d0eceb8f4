// Package retry is the retry loop of generated clients: one key, one encoded
// body, as many attempts as make sense.
//
// A client is made by the generated NewIdempotentClient, which takes the
// options of this package:
//
//	client, err := api.NewIdempotentClient("https://api.example.com",
//		retry.WithAttempts(6), retry.WithAttemptTimeout(5*time.Second))
//
// A marked operation is sent again after a transport error, an answer that
// breaks off, and the statuses 408, 425, 429, 500, 502, 503 and 504; after 409
// only when it says that the same request is in flight. What a server of
// idemgen calls not retryable is not sent again, nor is an answer that is a
// replay. Everything else is the operation's answer.
//
// With one exception: once an attempt can have had an effect, an answer from 400
// up that is no replay may come from something before the operation, such as a
// proxy, and hide that effect. It is asked for again, and comes as a replay if it
// is the operation's. It is an error at once if the document releases its status
// (401, 403 and 5XX, if it says nothing else), since that is never replayed.
//
// A call makes 4 attempts of up to 30 s each, if no option says otherwise. Those
// that are told that the request is in flight do not count: they go on for 45 s,
// see [WithInFlightWait].
// Pauses are random between zero and a bound that doubles from 200 ms to 10 s, on
// top of what Retry-After asks for (RFC 9110 section 10.2.3). Every attempt
// carries the same key and the same bytes. Answers are read into memory. A call
// that fails returns an [*idempotency.CallError]. It does not wait for an attempt
// that the deadline of its context forbids: it fails at once, and matches
// [context.DeadlineExceeded].
//
// A redirect (301, 302, 307, 308) is never followed: key and body would go to
// whatever host it names. It is an error. So is, at once, a certificate that does
// not hold, a header that cannot be sent, and what a request editor returns.
// Editors run for each attempt: they must leave the key alone, and make the same
// of all that counts for the fingerprint.
//
// What a client's author types are the options that begin with With,
// [FullJitter], [LogTo] and [Replayed]. [WithFramework], [Framework], [New],
// [Send], [Exchange], [Doer], [Stream] and [OneBody] are for generated code.
//
// # Servers without idempotency
//
// Only a replay shows that a server honours keys. One that does not executes
// every attempt: call it with [WithAttempts](1), or with oapi-codegen's own
// client.
//
// # Requests that net/http sends twice
//
// When a connection that was used before breaks and no answer has begun, the
// transport of net/http sends the request again by itself if it has the header
// field Idempotency-Key or X-Idempotency-Key, whatever its method. One attempt
// here can so be two requests at the server. Both carry the same key, so the
// second gets the answer of the first or 409. [Attempt].Sent counts them. With
// a field of another name, a request that was written is left to this package,
// and is another attempt.
//
// # Retries in other places
//
// A proxy, a service mesh or a caller that retries as well multiplies the
// attempts: three by four are twelve. The effects stay one, since all carry
// the same key, but the load does not. Retry in one place; here, if possible,
// since nothing else knows the key.
package retry
