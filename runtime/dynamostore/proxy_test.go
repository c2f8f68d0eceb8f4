package dynamostore_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// fate is what a proxy does with a request.
type fate int

const (
	loseAnswer   fate = iota // the server carries it out; the connection ends before the answer
	cut                      // the connection ends before the server has it
	throttle                 // it is answered by a lack of capacity
	conflict                 // it is answered by a conflict with another transaction
	progress                 // it is answered by itself, which is under way
	expire                   // it is refused, since the credentials have expired
	deny                     // it is refused, since the user has no permission
	decline                  // it is refused, since the claim's condition does not hold
	declineWrite             // it is refused, since a queued write's condition does not hold
	misread                  // it is answered by an emulator that does not know the operation
)

// errorsOf are the answers that stand for some fates.
var errorsOf = map[fate]string{
	throttle: `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"too fast"}`,
	conflict: `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"conflict"}`,
	progress: `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionInProgressException","Message":"in progress"}`,
	deny:     `{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no"}`,
	decline:  `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`,
	misread:  `{"__type":"com.amazon.coral.service#UnknownOperationException"}`,
	expire:   `{"__type":"com.amazon.coral.service#ExpiredTokenException","message":"expired"}`,
}

// cancelled is how a transaction is told of fates, with these reasons for its
// first item and the second.
var cancelled = map[fate][2]string{
	conflict:     {"None", "TransactionConflict"},
	decline:      {"ConditionalCheckFailed", "None"},
	declineWrite: {"None", "ConditionalCheckFailed"},
}

// answer is what stands for f.
func (f fate) answer(operation string) string {
	reasons, found := cancelled[f]
	if !found || operation != "TransactWriteItems" {
		return errorsOf[f]
	}
	return fmt.Sprintf(`{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","Message":"cancelled",`+
		`"CancellationReasons":[{"Code":%q},{"Code":%q}]}`, reasons[0], reasons[1])
}

// proxy stands between a client and a server.
type proxy struct {
	*httptest.Server

	target   string
	oldItems atomic.Bool  // refused claims come with the item, as from DynamoDB itself
	trips    atomic.Int64 // requests
	dark     atomic.Bool  // all connections end

	mu     sync.Mutex
	rules  []*rule
	tokens map[string]bool // of transactions
}

// rule is a fate for the next requests of an operation.
type rule struct {
	operation string
	fate      fate
	left      int
	struck    int    // requests that have met the fate
	then      func() // what happens between the request and the end of its connection, or nil
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	p := &proxy{target: target, tokens: map[string]bool{}}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// on gives the next n requests of an operation a fate.
func (p *proxy) on(operation string, f fate, n int) *rule { return p.onThen(operation, f, n, nil) }

// onThen gives the next n requests of an operation a fate, and calls then for
// each.
func (p *proxy) onThen(operation string, f fate, n int, then func()) *rule {
	r := &rule{operation: operation, fate: f, left: n, then: then}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
	return r
}

// met says how many requests have met the fate of r.
func (p *proxy) met(r *rule) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.struck
}

// clear forgets all fates.
func (p *proxy) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = nil
}

// note notes the token of a transaction.
func (p *proxy) note(body []byte) {
	var transaction struct{ ClientRequestToken string }
	if json.Unmarshal(body, &transaction) != nil || transaction.ClientRequestToken == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens[transaction.ClientRequestToken] = true
}

// transactions says how many transactions were sent, once or several times.
func (p *proxy) transactions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tokens)
}

// judge returns the rule that a request meets, or nil.
func (p *proxy) judge(operation string) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.left > 0 && operation == r.operation {
			r.left--
			r.struck++
			return r
		}
	}
	return nil
}

// end ends the connection of a request that has met r.
func (r *rule) end() {
	if r.then != nil {
		r.then()
	}
	panic(http.ErrAbortHandler)
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.trips.Add(1)
	body, _ := io.ReadAll(r.Body)
	p.note(body)
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	met := p.judge(operation)
	switch {
	case p.dark.Load():
		panic(http.ErrAbortHandler)
	case met == nil:
	case met.fate == cut:
		met.end()
	case met.fate != loseAnswer:
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, met.fate.answer(operation))
		return
	}
	status, header, answer := p.forward(r, r.Header.Get("X-Amz-Target"), body)
	if met != nil {
		met.end()
	}
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	if p.oldItems.Load() && status == http.StatusBadRequest && bytes.Contains(answer, []byte("ConditionalCheckFailed")) {
		answer = p.withItem(r, body, answer)
		header.Del("X-Amz-Crc32")
	}
	header.Del("Content-Length")
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

// forward sends a request on, with this operation and body, signed for its
// target. The status is 0 where there is no answer.
func (p *proxy) forward(r *http.Request, target string, body []byte) (int, http.Header, []byte) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, p.target+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil
	}
	req.Header = r.Header.Clone()
	req.Header.Set("X-Amz-Target", target)
	sum := sha256.Sum256(body)
	keys, err := credentials(r.Context())
	if err == nil {
		err = v4.NewSigner().SignHTTP(r.Context(), keys, req, hex.EncodeToString(sum[:]), "dynamodb", region(), time.Now())
	}
	if err != nil {
		return 0, nil, nil
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, nil
	}
	return res.StatusCode, res.Header, answer
}

// withItem adds the item to the refusal of a PutItem that asks for it.
func (p *proxy) withItem(r *http.Request, request, answer []byte) []byte {
	var put struct {
		TableName                           string
		Item                                map[string]json.RawMessage
		ReturnValuesOnConditionCheckFailure string
	}
	if json.Unmarshal(request, &put) != nil || put.ReturnValuesOnConditionCheckFailure != "ALL_OLD" {
		return answer
	}
	get := fmt.Appendf(nil, `{"TableName":%q,"ConsistentRead":true,"Key":{"id":%s}}`, put.TableName, put.Item["id"])
	_, _, found := p.forward(r, "DynamoDB_20120810.GetItem", get)
	var got struct{ Item json.RawMessage }
	before, closed := bytes.CutSuffix(bytes.TrimSpace(answer), []byte("}"))
	if json.Unmarshal(found, &got) != nil || got.Item == nil || !closed {
		return answer
	}
	return fmt.Appendf(nil, `%s,"Item":%s}`, before, got.Item)
}
