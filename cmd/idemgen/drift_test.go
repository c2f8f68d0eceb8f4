package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// pay is a document with one marked operation, whose marker stands in line 7.
const pay = `openapi: 3.0.3
info: {title: Payments, version: "1"}
paths:
  /accounts/{id}/payments:
    post:
      operationId: pay
      x-idempotent: {}
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: session, in: cookie, schema: {type: string}}
      requestBody:
        content: {application/json: {schema: {type: object, properties: {amount: {type: integer}, sent_at: {type: string}}}}}
      responses: {"201": {description: done}}
  /refunds:
    post:
      operationId: refund
      x-idempotent: {}
      responses: {"201": {description: done}}
  /accounts:
    post:
      operationId: open
      responses: {"201": {description: done}}
`

// marker writes the marker of the first operation.
func marker(text string) []string {
	return []string{"x-idempotent: {}\n      parameters", "x-idempotent: " + text + "\n      parameters"}
}

// hooks adds webhooks, in line 3.
func hooks(text string) []string {
	return []string{"openapi: 3.0.3", "openapi: 3.1.0", "paths:", "webhooks: {" + text + "}\npaths:"}
}

// doneCallbacks adds callbacks of one name to two operations.
func doneCallbacks(ids ...string) []string {
	var replacements []string
	for i, id := range ids {
		to := "operationId: " + []string{"refund", "open"}[i] + "\n"
		replacements = append(replacements, to, to+"      callbacks: {done: {'{$request.query.url}': {post: {operationId: "+id+", x-idempotent: {}, responses: {default: {description: done}}}}}}\n")
	}
	return replacements
}

// drifts are changes of the document and what is said of each.
var drifts = map[string]struct {
	before, now []string // replacements in pay
	want        string   // lines without the document's directory
}{
	"nothing": {nil, nil, ""},
	"another spelling": {
		marker("{release: [401, 403, 408, 425, 429, 5XX], retention: 90m, fingerprint: {exclude: [/sent_at, 'header:X-Trace']}, key: {name: Idempotency-Key}}"),
		marker("{release: [5XX, 500, 401, 403, 408, 425, 429], retention: 1h30m, fingerprint: {exclude: ['header:x-trace', /sent_at]}, key: {name: idempotency-key}}"),
		"",
	},
	"parameter renamed":  {nil, []string{"/{id}/", "/{account}/", "name: id,", "name: account,"}, ""},
	"type name":          {nil, marker("{name: PayRequest}"), ""},
	"new operation":      {nil, []string{"  /accounts:\n", "  /gifts: {post: {operationId: give, x-idempotent: true, responses: {\"204\": {description: given}}}}\n  /accounts:\n"}, ""},
	"protection lost":    {nil, marker("false"), "openapi.yaml:5:5: pay is not marked any more: each retry runs again, whatever its key, and live keys are not replayed; mark it again, or wait until no client retries it (protection-lost)\n"},
	"lost and renamed":   {nil, append(marker("false"), "operationId: pay", "operationId: payNow"), "openapi.yaml:5:5: pay is not marked any more: each retry runs again, whatever its key, and live keys are not replayed; mark it again, or wait until no client retries it (protection-lost)\n"},
	"operation removed":  {nil, []string{"  /refunds:\n    post:\n      operationId: refund\n      x-idempotent: {}\n      responses: {\"201\": {description: done}}\n", ""}, "OLD: refund (POST /refunds) is not in the document any more: its clients find nothing, and its live keys are not replayed; keep it until no retry can come (operation-removed)\n"},
	"operation renamed":  {nil, []string{"operationId: pay", "operationId: payNow"}, `openapi.yaml:7:7: payNow is the new name of pay: live keys are not found under it, and their retries run again; keep "pay" as the operationId, or wait until no retry can come (operation-renamed)` + "\n"},
	"operation nameless": {nil, []string{"      operationId: pay\n", ""}, `openapi.yaml:6:7: POST /accounts/{id}/payments is the new name of pay: live keys are not found under it, and their retries run again; keep "pay" as the operationId, or wait until no retry can come (operation-renamed)` + "\n"},
	"nameless moved": {
		[]string{"      operationId: pay\n", ""}, []string{"      operationId: pay\n", "", "/{id}/", "/{account}/", "name: id,", "name: account,"},
		`openapi.yaml:6:7: POST /accounts/{account}/payments is the new name of POST /accounts/{id}/payments: live keys are not found under it, and their retries run again; keep "POST /accounts/{id}/payments" as the operationId, or wait until no retry can come (operation-renamed)` + "\n",
	},
	"names swapped": {
		nil, []string{"operationId: pay", "operationId: refund", "operationId: refund", "operationId: pay"},
		"openapi.yaml:7:7: refund is at POST /accounts/{id}/payments now, and was at POST /refunds: a client that calls the old place finds nothing, and a live key at the new one is answered 422 mismatch; keep the old place until no retry can come (operation-moved)\n" +
			"openapi.yaml:18:7: pay is at POST /refunds now, and was at POST /accounts/{id}/payments: a client that calls the old place finds nothing, and a live key at the new one is answered 422 mismatch; keep the old place until no retry can come (operation-moved)\n",
	},
	"name taken over": {
		nil, []string{"operationId: pay", "operationId: open", "operationId: open", "operationId: start"},
		`openapi.yaml:7:7: open is the new name of pay: live keys are not found under it, and their retries run again; keep "pay" as the operationId, or wait until no retry can come (operation-renamed)` + "\n",
	},
	"place taken over": {
		nil, []string{"  /accounts/{id}/payments:\n", "  /old/{id}:\n", "operationId: pay\n      x-idempotent: {}\n", "operationId: old\n", "  /refunds:\n", "  /accounts/{id}/payments:\n    parameters: [{name: id, in: path, required: true, schema: {type: string}}]\n"},
		"OLD: pay (POST /accounts/{id}/payments) is not in the document any more: its clients find nothing, and its live keys are not replayed; keep it until no retry can come (operation-removed)\n" +
			"openapi.yaml:18:7: refund is at POST /accounts/{id}/payments now, and was at POST /refunds: a client that calls the old place finds nothing, and a live key at the new one is answered 422 mismatch; keep the old place until no retry can come (operation-moved)\n",
	},
	"operation moved":     {nil, []string{"/refunds:\n    post", "/reversals:\n    put"}, "openapi.yaml:18:7: refund is at PUT /reversals now, and was at POST /refunds: a client that calls the old place finds nothing, and a live key at the new one is answered 422 mismatch; keep the old place until no retry can come (operation-moved)\n"},
	"gained":              {nil, []string{"operationId: open\n", "operationId: open\n      x-idempotent: true\n"}, "openapi.yaml:23:7: open is marked now and requires a key: a request without one, which ran before, is answered 400 key_missing; begin with required: false, and require the key when all clients send it (protection-gained)\n"},
	"gained, optional":    {nil, []string{"operationId: open\n", "operationId: open\n      x-idempotent: {required: false}\n"}, "openapi.yaml:23:7: warning: open is marked now: a request with a key is protected, and one without runs as before and is counted as unprotected (protection-gained)\n"},
	"key required":        {marker("{required: false}"), marker("{required: true}"), "openapi.yaml:7:32: pay requires its key now: a request without one, which ran before, is answered 400 key_missing; write required: false until the outcome unprotected is counted no more (key-changed)\n"},
	"key required again":  {marker("{required: false}"), nil, "openapi.yaml:7:7: pay requires its key now: a request without one, which ran before, is answered 400 key_missing; write required: false until the outcome unprotected is counted no more (key-changed)\n"},
	"key optional":        {nil, marker("{required: false}"), "openapi.yaml:7:32: pay does not require its key any more: a request without one, which was answered 400 key_missing, runs each time that it comes; write required: true unless clients without a key must be served (key-changed)\n"},
	"key header":          {nil, marker("{key: {name: X-Key}}"), "openapi.yaml:7:34: pay reads its key from the header X-Key now, and did from Idempotency-Key: a client that sends the old one is answered 400 key_missing; keep it until all clients send both (key-changed)\n"},
	"key header optional": {marker("{required: false}"), marker("{required: false, key: {name: X-Key}}"), "openapi.yaml:7:51: pay reads its key from the header X-Key now, and did from Idempotency-Key: a client that sends the old one runs unprotected; keep it until all clients send both (key-changed)\n"},
	"key into the body":   {marker("{required: false}"), marker("{required: false, key: {in: body, name: /sent_at}}"), "openapi.yaml:7:61: pay reads its key from the member /sent_at of the body now, and did from the header Idempotency-Key: a client that sends the old one runs unprotected, and the retry of a live key whose body has the member 422 mismatch; keep it until all clients send both and no retry can come (key-changed)\n"},
	"key out of the body": {marker("{required: false, key: {in: body, name: /sent_at}}"), marker("{required: false}"), "openapi.yaml:7:7: pay reads its key from the header Idempotency-Key now, and did from the member /sent_at of the body: a client that sends the old one runs unprotected, and the retry of a live key whose body has the member 422 mismatch; keep it until all clients send both and no retry can come (key-changed)\n"},
	"key elsewhere": {
		append(marker("{required: false, key: {in: body, name: /sent_at}}"), "sent_at: {type: string}", "sent_at: {type: string}, trace: {type: string}"),
		append(marker("{required: false, key: {in: body, name: /trace}}"), "sent_at: {type: string}", "sent_at: {type: string}, trace: {type: string}"),
		"openapi.yaml:7:61: pay reads its key from the member /trace of the body now, and did from the member /sent_at of the body: a client that sends the old one runs unprotected, and the retry of a live key whose body has the member 422 mismatch; keep it until all clients send both and no retry can come (key-changed)\n",
	},
	"opaque to uuid":               {nil, marker("{key: {format: uuid}}"), "openapi.yaml:7:36: keys of pay are uuid now, and were opaque: another key is answered 400 key_invalid, and a live one in capital letters is not found, so that its retry runs again; keep the format until all clients send the new one and no retry can come (key-changed)\n"},
	"uuid to opaque":               {marker("{key: {format: uuid}}"), marker("{key: {format: opaque}}"), "openapi.yaml:7:36: keys of pay are opaque now, and were uuid: a live one that is sent in capital letters is not found, so that its retry runs again; keep the format until all clients send the new one and no retry can come (key-changed)\n"},
	"uuid to uuidv7":               {marker("{key: {format: uuid}}"), marker("{key: {format: uuidv7}}"), "openapi.yaml:7:36: keys of pay are uuidv7 now, and were uuid: another UUID is answered 400 key_invalid, and a key older than its retention 412 key_expired; keep the format until all clients send the new one and no retry can come (key-changed)\n"},
	"uuidv7 to uuid":               {marker("{key: {format: uuidv7}}"), marker("{key: {format: uuid}}"), "openapi.yaml:7:36: keys of pay are uuid now, and were uuidv7: the retry of a key older than its retention runs again, and was answered 412 key_expired; keep the format until all clients send the new one and no retry can come (key-changed)\n"},
	"shorter keys":                 {nil, marker("{key: {maxLength: 40}}"), "openapi.yaml:7:39: keys of pay have at most 40 bytes now, and had 255: a longer one, a live one too, is answered 400 key_invalid; keep the maxLength until no client sends such keys (key-changed)\n"},
	"longer keys":                  {marker("{key: {maxLength: 40}}"), marker("{key: {maxLength: 41}}"), "openapi.yaml:7:39: warning: keys of pay have at most 41 bytes now, and had 40: no client notices (key-changed)\n"},
	"room for UUIDs":               {marker("{key: {format: uuid, maxLength: 40}}"), marker("{key: {format: uuid}}"), ""},
	"shorter retention":            {nil, marker("{retention: 90m}"), "openapi.yaml:7:33: answers of pay are kept for 1h30m now, and were for 24h: a retry that comes later than that runs again; keep the retention unless all clients give up sooner (retention-changed)\n"},
	"shorter, uuidv7":              {marker("{key: {format: uuidv7}}"), marker("{key: {format: uuidv7}, retention: 90s}"), "openapi.yaml:7:56: answers of pay are kept for 1m30s now, and were for 24h: a retry that comes later than that is answered 412 key_expired; keep the retention unless all clients give up sooner (retention-changed)\n"},
	"longer retention":             {nil, marker("{retention: 48h}"), "openapi.yaml:7:33: warning: answers of pay are kept for 48h now, and were for 24h: no client notices, and the store grows (retention-changed)\n"},
	"longer, uuidv7":               {marker("{key: {format: uuidv7}}"), marker("{key: {format: uuidv7}, retention: 48h}"), "openapi.yaml:7:56: answers of pay are kept for 48h now, and were for 24h: the retry of a key whose answer is gone, which was answered 412 key_expired, runs again until the key is older than 48h; keep the retention unless no retry comes after 24h (retention-changed)\n"},
	"default retention":            {nil, []string{"paths:", "x-idempotent-defaults: {retention: 1h}\npaths:"}, "openapi.yaml:3:36: answers of pay are kept for 1h now, and were for 24h: a retry that comes later than that runs again; keep the retention unless all clients give up sooner (retention-changed)\nopenapi.yaml:3:36: answers of refund are kept for 1h now, and were for 24h: a retry that comes later than that runs again; keep the retention unless all clients give up sooner (retention-changed)\n"},
	"raw":                          {nil, marker("{fingerprint: raw}"), "openapi.yaml:7:35: the fingerprint of pay is raw now, and was canonical: the retry of an earlier request is answered 422 mismatch; keep it until no such retry can come (fingerprint-changed)\n"},
	"exclude":                      {marker("{fingerprint: {exclude: [/sent_at]}}"), marker("{fingerprint: {exclude: [/sent_at, 'header:X-Trace']}}"), "openapi.yaml:7:35: the fingerprint of pay is exclude /sent_at, header:X-Trace now, and was exclude /sent_at: the retry of an earlier request is answered 422 mismatch; keep it until no such retry can come (fingerprint-changed)\n"},
	"include":                      {nil, marker("{fingerprint: {include: [/amount]}}"), "openapi.yaml:7:35: the fingerprint of pay is include /amount now, and was canonical: the retry of an earlier request is answered 422 mismatch; keep it until no such retry can come (fingerprint-changed)\n"},
	"header declared":              {[]string{"        - {name: X-Trace, in: header, schema: {type: string}}\n", ""}, nil, "openapi.yaml:10:18: warning: the fingerprint of pay has the header X-Trace now: the retry of a client that has sent it all along is answered 422 mismatch, and no other client notices (fingerprint-changed)\n"},
	"cookie not declared":          {nil, []string{"        - {name: session, in: cookie, schema: {type: string}}\n", ""}, "openapi.yaml:5:5: the fingerprint of pay does not have the cookie session any more: the retry of an earlier request that has it is answered 422 mismatch; declare it until no such retry can come (fingerprint-changed)\n"},
	"excluded header":              {append(marker("{fingerprint: {exclude: [/sent_at]}}"), "        - {name: X-Trace, in: header, schema: {type: string}}\n", ""), marker("{fingerprint: {exclude: [/sent_at]}}"), "openapi.yaml:10:18: warning: the fingerprint of pay has the header X-Trace now: the retry of a client that has sent it all along is answered 422 mismatch, and no other client notices (fingerprint-changed)\n"},
	"header declared and excluded": {[]string{"        - {name: X-Trace, in: header, schema: {type: string}}\n", ""}, marker("{fingerprint: {exclude: ['header:X-Trace']}}"), ""},
	"excluded header not declared": {marker("{fingerprint: {exclude: ['header:X-Trace', /sent_at]}}"), append(marker("{fingerprint: {exclude: [/sent_at]}}"), "        - {name: X-Trace, in: header, schema: {type: string}}\n", ""), ""},
	"included header not declared": {
		marker("{fingerprint: {include: ['header:X-Trace', /amount]}}"), append(marker("{fingerprint: {include: [/amount]}}"), "        - {name: X-Trace, in: header, schema: {type: string}}\n", ""),
		"openapi.yaml:5:5: the fingerprint of pay does not have the header X-Trace any more: the retry of an earlier request that has it is answered 422 mismatch; declare it until no such retry can come (fingerprint-changed)\n",
	},
	"header no longer excluded": {marker("{fingerprint: {exclude: ['header:X-Trace']}}"), marker("{fingerprint: canonical}"), "openapi.yaml:7:35: the fingerprint of pay is canonical now, and was exclude header:X-Trace: the retry of an earlier request is answered 422 mismatch; keep it until no such retry can come (fingerprint-changed)\n"},
	"only the header included":  {marker("{fingerprint: {include: ['header:X-Trace']}}"), marker("{fingerprint: {exclude: ['header:X-Trace']}}"), "openapi.yaml:7:35: the fingerprint of pay is exclude header:X-Trace now, and was include header:X-Trace: the retry of an earlier request is answered 422 mismatch; keep it until no such retry can come (fingerprint-changed)\n"},
	"header not included":       {append(marker("{fingerprint: {include: [/amount]}}"), "        - {name: X-Trace, in: header, schema: {type: string}}\n", ""), marker("{fingerprint: {include: [/amount]}}"), ""},
	"wait":                      {nil, marker("{inFlight: {waitUpTo: 5s}}"), "openapi.yaml:7:43: warning: a retry of pay that comes during the first attempt waits up to 5s now, and was answered 409 in_flight at once: clients notice nothing if they are that patient (in-flight-changed)\n"},
	"reject":                    {marker("{inFlight: {waitUpTo: 1500ms}}"), nil, "openapi.yaml:7:7: a retry of pay that comes during the first attempt is answered 409 in_flight at once now, and waited up to 1.5s: a client that takes 409 for the end fails; keep the wait until all clients retry it (in-flight-changed)\n"},
	"a lease":                   {nil, marker("{mode: {lease: 30s}}"), "openapi.yaml:7:36: the handler of pay runs under a lease now, and ran in a transaction: what it writes is no longer committed with its answer, and a retry after a crash runs it again; derive keys for what it calls, and give the server a store with leases (mode-changed)\n"},
	"no lease":                  {marker("{mode: {lease: 30s}}"), nil, "openapi.yaml:7:7: the handler of pay runs in a transaction now, and ran under a lease: a retry of a live key that has no answer yet runs it without what it has done elsewhere; wait until no such key is left (mode-changed)\n"},
	"another lease":             {marker("{mode: {lease: 30s}}"), marker("{mode: {lease: 1m}}"), "openapi.yaml:7:36: warning: leases of pay are 1m now, and were 30s: a retry after a crash is answered 409 in_flight for that long, and a handler that stalls for longer loses its key (mode-changed)\n"},
	"more is released":          {marker("{release: [5XX]}"), marker("{release: [409, 5XX]}"), "openapi.yaml:7:31: answers that free the key of pay are [409, 5XX] now, and were [5XX]: an answer that is new in the list is rolled back, and its retry runs again; change it with the clients that retry such answers (release-changed)\n"},
	"less is released":          {nil, marker("{release: []}"), "openapi.yaml:7:31: answers that free the key of pay are [] now, and were [401, 403, 408, 425, 429, 5XX]: one that is gone from it is stored with what the handler wrote, and replayed to every retry; change it with the clients that retry such answers (release-changed)\n"},
	"other is released":         {marker("{release: [4XX]}"), marker("{release: [5XX]}"), "openapi.yaml:7:31: answers that free the key of pay are [5XX] now, and were [4XX]: an answer that is new in the list is rolled back, and its retry runs again, and one that is gone from it is stored with what the handler wrote, and replayed to every retry; change it with the clients that retry such answers (release-changed)\n"},
	"media type": {
		nil, []string{"application/json: {schema", "text/plain: {schema"},
		"openapi.yaml:13:9: the fingerprint of pay takes a body of type \"application/json\" for bytes now, and took it for a JSON value: the retry of an earlier request with one is answered 422 mismatch; declare that type until no such retry can come (fingerprint-changed)\n",
	},
	"another type of JSON": {nil, []string{"application/json: {schema", "application/vnd.api+json: {schema"}, ""},
	"media types": {
		[]string{"{application/json: {schema", "{multipart/form-data: {schema: {type: object}}, text/plain: {schema: {type: string}}, application/json; charset=utf-8: {schema"},
		[]string{"{application/json: {schema", "{application/json: {schema: {type: object}}, text/html: {schema"},
		"openapi.yaml:13:9: the fingerprint of pay takes a body of type \"multipart/form-data\" for bytes now, and took it for the parts of a form: the retry of an earlier request with one is answered 422 mismatch; declare that type until no such retry can come (fingerprint-changed)\n",
	},
	"more media types": {nil, []string{"{application/json: {schema", "{application/json: {schema: {type: object}}, '*/*': {schema: {type: string}}, multipart/form-data: {schema"}, "openapi.yaml:13:9: the fingerprint of pay takes a body of type \"application/json\" for bytes now, and took it for a JSON value: the retry of an earlier request with one is answered 422 mismatch; declare that type until no such retry can come (fingerprint-changed)\n"},
	"no body": {
		nil, []string{"      requestBody:\n        content: {application/json: {schema: {type: object, properties: {amount: {type: integer}, sent_at: {type: string}}}}}\n", ""},
		"openapi.yaml:5:5: the fingerprint of pay takes a body of type \"application/json\" for bytes now, and took it for a JSON value: the retry of an earlier request with one is answered 422 mismatch; declare that type until no such retry can come (fingerprint-changed)\n",
	},
	"media type, raw":      {marker("{fingerprint: raw}"), append(marker("{fingerprint: raw}"), "application/json: {schema", "text/plain: {schema"), ""},
	"media type, left out": {marker("{fingerprint: {include: ['header:X-Trace']}}"), append(marker("{fingerprint: {include: ['header:X-Trace']}}"), "application/json: {schema", "text/plain: {schema"), ""},
	"webhook removed": {
		hooks("paid: {post: {operationId: paid, x-idempotent: {}, responses: {default: {description: done}}}}"), nil,
		"OLD: paid (POST webhook paid) is not in the document any more: its clients find nothing, and its live keys are not replayed; keep it until no retry can come (operation-removed)\n",
	},
	"webhook without operationId": {
		hooks("paid: {post: {operationId: isPaid, x-idempotent: {}, responses: {default: {description: done}}}}"),
		hooks("paid: {post: {x-idempotent: {}, responses: {default: {description: done}}}}"),
		`openapi.yaml:3:26: POST webhook paid is the new name of isPaid: live keys are not found under it, and their retries run again; keep "isPaid" as the operationId, or wait until no retry can come (operation-renamed)` + "\n",
	},
	"name of a webhook": {
		hooks("paid: {post: {operationId: isPaid, x-idempotent: {}, responses: {default: {description: done}}}}"),
		hooks("settled: {post: {operationId: isPaid, x-idempotent: {}, responses: {default: {description: done}}}}"), "",
	},
	"method of a webhook": {
		hooks("paid: {post: {operationId: isPaid, x-idempotent: {}, responses: {default: {description: done}}}}"),
		hooks("paid: {put: {operationId: isPaid, x-idempotent: {}, responses: {default: {description: done}}}}"),
		"openapi.yaml:3:46: isPaid is at PUT now, and was at POST: a client that calls the old place finds nothing, and a live key at the new one is answered 422 mismatch; keep the old place until no retry can come (operation-moved)\n",
	},
	"key of a webhook": {
		hooks("paid: {post: {x-idempotent: {}, responses: {default: {description: done}}}, put: {operationId: lost, responses: {default: {description: done}}}}"),
		hooks("paid: {post: {x-idempotent: {key: {name: Webhook-Id}}, responses: {default: {description: done}}}, put: {operationId: lost, x-idempotent: {required: false}, responses: {default: {description: done}}}}"),
		"openapi.yaml:3:53: POST webhook paid reads its key from the header Webhook-Id now, and did from Idempotency-Key: a client that sends the old one is answered 400 key_missing; keep it until all clients send both (key-changed)\n" +
			"openapi.yaml:3:136: warning: lost is marked now: a request with a key is protected, and one without runs as before and is counted as unprotected (protection-gained)\n",
	},
	"callbacks of one name": {
		doneCallbacks("b", "a"), doneCallbacks("b", "c"),
		"OLD: a (POST callback done) is not in the document any more: its clients find nothing, and its live keys are not replayed; keep it until no retry can come (operation-removed)\n",
	},
	"several": {nil, marker("{retention: 1h, key: {name: X-Key}}"), "openapi.yaml:7:33: answers of pay are kept for 1h now, and were for 24h: a retry that comes later than that runs again; keep the retention unless all clients give up sooner (retention-changed)\nopenapi.yaml:7:49: pay reads its key from the header X-Key now, and did from Idempotency-Key: a client that sends the old one is answered 400 key_missing; keep it until all clients send both (key-changed)\n"},
}

// lines returns the findings of a run in the format json as lines with their
// codes, in the form "file:line:col: message (code)", without those of stale
// files.
func lines(t *testing.T, stdout, dir string) string {
	t.Helper()
	var got struct {
		Findings []struct {
			File, Level, Code, Message string
			Line, Col                  int
		}
		Error string
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || got.Error != "" {
		t.Fatalf("%v, %s: %s", err, got.Error, stdout)
	}
	var b strings.Builder
	for _, f := range got.Findings {
		if f.Code == "stale" {
			continue
		}
		place := filepath.ToSlash(f.File)
		place = strings.TrimPrefix(place[strings.LastIndex(place, filepath.Base(dir))+len(filepath.Base(dir)):], "/")
		if f.Code == "operation-removed" { // in what is older
			place = "OLD"
		} else {
			place = strings.Join([]string{place, strconv.Itoa(f.Line), strconv.Itoa(f.Col)}, ":")
		}
		if f.Level == "warning" {
			place += ": warning"
		}
		b.WriteString(place + ": " + f.Message + " (" + f.Code + ")\n")
	}
	return b.String()
}

// A change of the document is named in what it means, from the generated file
// alone and from two documents alike, and the exit code says whether a client
// or a live key notices it.
//
// Covers GEN-37.
func TestDrift(t *testing.T) {
	t.Parallel()
	for name, test := range drifts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t)
			before, now := strings.NewReplacer(test.before...).Replace(pay), strings.NewReplacer(test.now...).Replace(pay)
			write(t, dir, "openapi.yaml", before)
			if _, stderr, code := idemgen("-q", "-config", configOf(dir)); code != exitDone {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			write(t, dir, "openapi.yaml", now)
			write(t, dir, "old.yaml", before)
			files := snapshot(t, dir)

			stdout, _, code := idemgen("-check", "-format", "json", "-config", configOf(dir))
			if got := lines(t, stdout, dir); got != test.want {
				t.Errorf("-check:\ngot:\n%swant:\n%s", got, test.want)
			}
			if want := strings.Contains(stdout, `"code": "stale"`); (code == exitFindings) != want {
				t.Errorf("-check: exit %d, stale %v", code, want)
			}

			stdout, _, code = idemgen("-check", "-against", filepath.Join(dir, "old.yaml"), "-format", "json", "-config", configOf(dir))
			if got := lines(t, stdout, dir); got != test.want {
				t.Errorf("-against:\ngot:\n%swant:\n%s", got, test.want)
			}
			wantCode := exitDone
			if strings.Contains(stdout, `"level": "error"`) {
				wantCode = exitFindings
			}
			if code != wantCode {
				t.Errorf("-against: exit %d, want %d", code, wantCode)
			}
			if snapshot(t, dir) != files {
				t.Error("a file was touched")
			}
		})
	}
}

// What a run prints beside the findings follows the flags.
func TestDriftOutput(t *testing.T) {
	t.Parallel()
	dir := project(t)
	check := func(want int, args ...string) (string, string) {
		t.Helper()
		stdout, stderr, code := idemgen(append(args, "-config", configOf(dir))...)
		if code != want {
			t.Errorf("idemgen %v: exit %d, want %d\n%s%s", args, code, want, stdout, stderr)
		}
		return stdout, stderr
	}
	const (
		shorter = "openapi.yaml:7:33: answers of pay are kept for 1h now, and were for 24h: "
		longer  = "openapi.yaml:7:33: warning: answers of pay are kept for 48h now, and were for 24h: "
		nothing = "no client and no live key notices what has changed since "
	)
	old := filepath.Join(dir, "old.yaml")
	write(t, dir, "old.yaml", pay)
	write(t, dir, "openapi.yaml", strings.NewReplacer(marker("{retention: 1h}")...).Replace(pay))

	// There is no file yet to compare with.
	if _, stderr := check(exitFindings, "-check"); strings.Count(stderr, "\n") != 2 || strings.Count(stderr, "is missing") != 2 {
		t.Errorf("first generation: %s", stderr)
	}
	write(t, dir, "openapi.yaml", pay)
	check(exitDone, "-q")
	for _, args := range [][]string{{"-check"}, {"-check", "-v"}, {"-check", "-n"}} {
		if _, stderr := check(exitDone, args...); stderr != "" {
			t.Errorf("unchanged, %v: %s", args, stderr)
		}
	}
	if stdout, stderr := check(exitDone, "-check", "-against", old); stdout != nothing+old+"\n" || stderr != "" {
		t.Errorf("unchanged: %s%s", stdout, stderr)
	}

	write(t, dir, "openapi.yaml", strings.NewReplacer(marker("{retention: 1h}")...).Replace(pay))
	for _, args := range [][]string{{"-check"}, {"-check", "-q"}, {"-check", "-v"}, {"-check", "-n"}} {
		stdout, stderr := check(exitFindings, args...)
		if !strings.Contains(stderr, shorter) || !strings.Contains(stderr, "is not what the document says now") || strings.Count(stderr, "\n") != 2 {
			t.Errorf("%v: %s", args, stderr)
		}
		if hasDiff := strings.Contains(stdout, "24 * time.Hour"); hasDiff == (args[len(args)-1] == "-q") {
			t.Errorf("%v: diff %v", args, hasDiff)
		}
	}
	for _, args := range [][]string{{}, {"-q"}, {"-v"}, {"-n"}} {
		stdout, stderr := check(exitFindings, append(args, "-check", "-against", old)...)
		if stdout != "" || !strings.Contains(stderr, shorter) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("-against %v: %s%s", args, stdout, stderr)
		}
	}
	write(t, dir, ".git/HEAD", "")
	if stdout, _ := check(exitFindings, "-check", "-against", old, "-format", "github"); !strings.HasPrefix(stdout, "::error file=openapi.yaml,line=7,col=33,title=retention-changed::answers of pay") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("github: %s", stdout)
	}
	asked := strings.Replace(shorter, "33: ", "33: warning: ", 1) // who generates has asked for it
	if stdout, stderr := check(exitDone, "-n"); !strings.Contains(stdout, "stale, would be written") || !strings.Contains(stderr, asked) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("-n: %s%s", stdout, stderr)
	}

	write(t, dir, "openapi.yaml", strings.NewReplacer(marker("{retention: 48h}")...).Replace(pay))
	if stdout, stderr := check(exitDone, "-check", "-against", old); stdout != nothing+old+"\n" || !strings.Contains(stderr, longer) {
		t.Errorf("longer: %s%s", stdout, stderr)
	}
	if stdout, stderr := check(exitDone, "-check", "-q", "-against", old); stdout != "" || !strings.Contains(stderr, longer) {
		t.Errorf("longer, -q: %s%s", stdout, stderr)
	}
	if stdout, _ := check(exitDone, "-check", "-against", old, "-format", "github"); !strings.HasPrefix(stdout, "::warning file=openapi.yaml,") {
		t.Errorf("longer, github: %s", stdout)
	}
	if _, stderr := check(exitFindings, "-check"); !strings.Contains(stderr, longer) || strings.Count(stderr, "\n") != 2 {
		t.Errorf("longer, -check: %s", stderr)
	}

	for _, want := range []string{longer, ""} { // once it runs so, nothing changes any more
		if _, stderr := check(exitDone); !strings.Contains(stderr, want) || (stderr == "") != (want == "") {
			t.Errorf("generate: %q, want %q", stderr, want)
		}
	}
	write(t, dir, "openapi.yaml", strings.NewReplacer(marker("{retention: 1h}")...).Replace(pay))
	if _, stderr := check(exitDone); !strings.Contains(stderr, "warning: answers of pay are kept for 1h now, and were for 48h: ") {
		t.Errorf("generate: %s", stderr)
	}
}

// A file on disk that cannot be read is said to be so: nothing found must not
// pass for nothing changed.
func TestDriftUnknown(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string][]string{
		"merge conflict": {"\nvar payOperation", "\n<<<<<<< HEAD\nvar payOperation"},
		"other version":  {"Retention: 24", "Lifetime: 24"},
		"no operation":   {"= idempotency.Operation{", "= idempotency.Other{"},
		"line ends":      {"\n", "\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t)
			write(t, dir, "openapi.yaml", pay)
			if _, stderr, code := idemgen("-q", "-config", configOf(dir)); code != exitDone {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			src, err := os.ReadFile(filepath.Join(dir, "idempotent.gen.go"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "idempotent.gen.go", strings.NewReplacer(edit...).Replace(string(src)))
			write(t, dir, "openapi.yaml", strings.NewReplacer(marker("{retention: 1h}")...).Replace(pay))
			_, stderr, code := idemgen("-check", "-config", configOf(dir))
			want := "idempotent.gen.go: warning: what has changed for clients and live keys is not known, since this file cannot be read"
			if name == "line ends" {
				want = "answers of pay are kept for 1h now"
			}
			if code != exitFindings || !strings.Contains(stderr, want) || !strings.Contains(stderr, "is not what the document says now") {
				t.Errorf("exit %d, want %q in:\n%s", code, want, stderr)
			}
		})
	}
}

// What cannot be compared is refused.
func TestAgainst(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		args  []string
		code  int
		want  string
	}{
		"without -check": {nil, []string{"-against", "old.yaml"}, exitUsage, "write -check -against"},
		"missing":        {nil, []string{"-check", "-against", "none.yaml"}, exitUsage, "none.yaml: cannot be read"},
		"broken":         {map[string]string{"old.yaml": strings.Replace(pay, "{}", "{retention: 1}", 1)}, []string{"-check", "-against", "old.yaml"}, exitFindings, "old.yaml:7:33: retention must be"},
		"now broken":     {map[string]string{"openapi.yaml": strings.Replace(pay, "{}", "{retention: 1}", 1)}, []string{"-check", "-against", "old.yaml"}, exitFindings, "openapi.yaml:7:33: retention must be"},
		"no document":    {map[string]string{"old.yaml": "a: b\n"}, []string{"-check", "-against", "old.yaml"}, exitFindings, "is not an OpenAPI document"},
		"marked by config": {
			map[string]string{"idemgen.yaml": config + "operations: {open: true}\n"}, []string{"-check", "-against", "old.yaml"},
			exitUsage, "compare with the config of that time",
		},
		"older config": {
			map[string]string{"idemgen.yaml": config + "operations: {open: true}\n", "old/idemgen.yaml": "spec: ../old.yaml\noperations: {open: {retention: 48h}}\n"},
			[]string{"-check", "-against", "old/idemgen.yaml"}, exitFindings, "answers of open are kept for 24h now, and were for 48h",
		},
		"older config is broken": {
			map[string]string{"old/idemgen.yaml": "spec: ../old.yaml\noperatoins: {}\n"},
			[]string{"-check", "-against", "old/idemgen.yaml"}, exitFindings, "operatoins",
		},
		"last marker is gone": {
			map[string]string{"openapi.yaml": strings.ReplaceAll(pay, "x-idempotent: {}", "x-idempotent: false")},
			[]string{"-check", "-against", "old.yaml"}, exitFindings, "refund is not marked any more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := project(t)
			write(t, dir, "openapi.yaml", pay)
			write(t, dir, "old.yaml", pay)
			for file, content := range test.files {
				write(t, dir, file, content)
			}
			args := append([]string{"-config", configOf(dir)}, test.args...)
			args[len(args)-1] = filepath.Join(dir, args[len(args)-1])
			before := snapshot(t, dir)
			if stdout, stderr, code := idemgen(args...); code != test.code || !strings.Contains(stderr, test.want) {
				t.Errorf("exit %d, want %d and %q\n%s%s", code, test.code, test.want, stdout, stderr)
			}
			if snapshot(t, dir) != before {
				t.Error("a file was touched")
			}
		})
	}
}

// The steps of docs/adoption.md: only the last one is one that clients notice.
//
// Covers GEN-36.
func TestAdoptionSteps(t *testing.T) {
	t.Parallel()
	const golden = "../../testdata/golden/"
	document, err := os.ReadFile(golden + "adoption-optional/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "openapi.yaml", string(document))
	write(t, dir, "go.mod", goMod)
	write(t, dir, "unmarked.yaml", "spec: openapi.yaml\n")
	unmarked := filepath.Join(dir, "unmarked.yaml")
	optional, required := golden+"adoption-optional/idemgen.yaml", golden+"adoption-required/idemgen.yaml"
	for _, step := range []struct {
		from, to string
		code     int
		want     string
	}{
		{unmarked, optional, exitDone, optional + ":4:3: warning: createPayment is marked now: a request with a key is protected, and one without runs as before and is counted as unprotected [protection-gained]\n"},
		{optional, required, exitFindings, required + ":4:29: createPayment requires its key now: a request without one, which ran before, is answered 400 key_missing; write required: false until the outcome unprotected is counted no more [key-changed]\n"},
		{unmarked, required, exitFindings, required + ":4:3: createPayment is marked now and requires a key: a request without one, which ran before, is answered 400 key_missing; begin with required: false, and require the key when all clients send it [protection-gained]\n"},
	} {
		if _, stderr, code := idemgen("-check", "-against", step.from, "-config", step.to); code != step.code || stderr != step.want {
			t.Errorf("from %s: exit %d, want %d\ngot:  %swant: %s", step.from, code, step.code, stderr, step.want)
		}
	}
}
