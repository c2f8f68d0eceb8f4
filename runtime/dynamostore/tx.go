package dynamostore

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limits of DynamoDB.
const (
	maxItems = 100       // in a transaction
	maxItem  = 400 << 10 // bytes
	maxTotal = 4 << 20   // bytes in a transaction
)

// Tx takes the DynamoDB writes of one run of work. They are carried out after
// work has returned, in the same transaction that stores its answer: all of them
// or, if one is refused or the claim was lost, none. What work reads, it reads
// through a client of its own; it does not see its own queued writes.
//
// A Tx is safe for concurrent use. It takes nothing once work has returned.
type Tx struct {
	table string // of the store

	mu       sync.Mutex
	returned bool
	err      error // why nothing of this run may be written
	writes   []types.TransactWriteItem
}

// Queue takes writes, to be carried out with the answer. Each is a Put, an
// Update, a Delete or a ConditionCheck.
//
//	err := tx.Queue(types.TransactWriteItem{Update: &types.Update{
//		TableName:                 aws.String("accounts"),
//		Key:                       map[string]types.AttributeValue{"id": id},
//		UpdateExpression:          aws.String("ADD balance :amount"),
//		ExpressionAttributeValues: map[string]types.AttributeValue{":amount": amount},
//	}})
//
// It returns an error for what no transaction takes: more than 99 writes, an
// item of more than 400 KB, two writes to one item, a write to the store's own
// table. Two Puts to one item are found by DynamoDB itself, if no other write
// shows what the table's key is. After an error nothing of this run is written,
// even if work goes on and returns an answer.
//
// What the writes point to must not be changed afterwards.
func (t *Tx) Queue(writes ...types.TransactWriteItem) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.returned {
		return errReturned
	}
	err := t.take(writes)
	t.err = errors.Join(t.err, err)
	return err
}

func (t *Tx) take(writes []types.TransactWriteItem) error {
	for _, w := range writes {
		n := len(t.writes)
		p, err := partsOf(w)
		switch {
		case err != nil:
			return fmt.Errorf("dynamostore: write %d cannot be queued: %w", n, err)
		case n == maxItems-1:
			return fmt.Errorf("dynamostore: write %d cannot be queued: a transaction has at most %d items, and the answer is one", n, maxItems)
		case p.table == t.table || strings.HasSuffix(p.table, ":table/"+t.table):
			return fmt.Errorf("dynamostore: write %d cannot be queued: table %s is the store's", n, t.table)
		case p.size() > maxItem:
			return fmt.Errorf("dynamostore: write %d cannot be queued: it has %d bytes, and an item at most %d", n, p.size(), maxItem)
		}
		t.writes = append(t.writes, w)
	}
	return twice(t.writes)
}

// finish ends the use of t. It says why nothing of it may be written.
func (t *Tx) finish() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.returned = true
	return t.err
}

// parts are what the four kinds of writes have in common.
type parts struct {
	table  string
	key    item // nil in a Put, whose item holds it
	item   item // of a Put
	values item // of expressions
}

func partsOf(w types.TransactWriteItem) (parts, error) {
	var kinds []parts
	if p := w.Put; p != nil {
		kinds = append(kinds, parts{table: aws.ToString(p.TableName), item: p.Item, values: p.ExpressionAttributeValues})
	}
	if u := w.Update; u != nil {
		kinds = append(kinds, parts{table: aws.ToString(u.TableName), key: u.Key, values: u.ExpressionAttributeValues})
	}
	if d := w.Delete; d != nil {
		kinds = append(kinds, parts{table: aws.ToString(d.TableName), key: d.Key, values: d.ExpressionAttributeValues})
	}
	if c := w.ConditionCheck; c != nil {
		kinds = append(kinds, parts{table: aws.ToString(c.TableName), key: c.Key, values: c.ExpressionAttributeValues})
	}
	switch {
	case len(kinds) != 1:
		return parts{}, errors.New("it must be one of Put, Update, Delete and ConditionCheck")
	case kinds[0].table == "":
		return parts{}, errors.New("it names no table")
	case len(kinds[0].key) == 0 && len(kinds[0].item) == 0:
		return parts{}, errors.New("it has no key")
	}
	return kinds[0], nil
}

func (p parts) size() int { return p.key.size() + p.item.size() + p.values.size() }

// checkTotal refuses a transaction that is too large.
func checkTotal(writes []types.TransactWriteItem) error {
	total := 0
	for _, w := range writes {
		p, err := partsOf(w)
		if err != nil {
			return err
		}
		total += p.size()
	}
	if total > maxTotal {
		return fmt.Errorf("dynamostore: the answer and the queued writes have %d bytes, and a transaction has at most %d; nothing is kept", total, maxTotal)
	}
	return nil
}

// twice returns an error where two writes are to one item, as far as the writes
// show what the keys of tables are.
func twice(writes []types.TransactWriteItem) error {
	all := make([]parts, len(writes))
	keys := map[string][]string{} // the key attributes of tables
	for i, w := range writes {
		all[i], _ = partsOf(w) // looked at when it was taken
		if key := all[i].key; key != nil {
			keys[all[i].table] = slices.Sorted(maps.Keys(key))
		}
	}
	seen := map[string]int{}
	for i, p := range all {
		names, known := keys[p.table]
		if !known {
			continue
		}
		values := p.key
		if values == nil {
			values = p.item
		}
		target := p.table + strings.Join(scalars(values, names), "")
		if first, found := seen[target]; found {
			return fmt.Errorf("dynamostore: writes %d and %d are to one item of table %s, which a transaction does not take: make them one", first, i, p.table)
		}
		seen[target] = i
	}
	return nil
}

// scalars returns the values of key attributes, quoted, with their types.
func scalars(i item, names []string) (quoted []string) {
	for _, name := range names {
		var value string
		switch v := i[name].(type) {
		case *types.AttributeValueMemberS:
			value = v.Value
		case *types.AttributeValueMemberN:
			value = v.Value
		case *types.AttributeValueMemberB:
			value = string(v.Value)
		}
		quoted = append(quoted, fmt.Sprintf("%T%q", i[name], value))
	}
	return quoted
}

// size returns about how many bytes DynamoDB counts for i.
func (i item) size() (n int) {
	for name, v := range i {
		n += len(name) + sizeOf(v)
	}
	return n
}

func sizeOf(v types.AttributeValue) (n int) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 1
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += len(s)
		}
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n += len(s)/2 + 1
		}
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			n += len(b)
		}
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			n += 1 + sizeOf(e)
		}
		n += 3
	case *types.AttributeValueMemberM:
		n = 3 + len(v.Value) + item(v.Value).size()
	default:
		n = 1
	}
	return n
}
