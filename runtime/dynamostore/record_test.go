package dynamostore

import (
	"maps"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/idempotency"
)

// FuzzDecode: attributes of any content are a record or an error, and what is a
// record says what was in them.
func FuzzDecode(f *testing.F) {
	f.Add("201", "tenant", "op", "k", []byte("\x01print"), []byte("Content-Type: text/plain\r\n"), []byte("body"), "1796073940378", "1796077540378")
	f.Add("200", "", "", "", []byte{}, []byte{}, []byte{}, "0", "0")
	f.Add("99", "s", "o", "k", []byte("f"), []byte{}, []byte{}, "1", "2")
	f.Add("0200", "s", "o", "k", []byte("f"), []byte("no header"), []byte("\x00\xff"), "-1", "9223372036854775807")
	f.Fuzz(func(t *testing.T, status, scope, operation, key string, fingerprint, header, body []byte, created, expires string) {
		i := item{
			attrToken:     &types.AttributeValueMemberS{Value: "token"},
			attrStatus:    &types.AttributeValueMemberN{Value: status},
			attrCreatedAt: &types.AttributeValueMemberN{Value: created},
			attrExpiresAt: &types.AttributeValueMemberN{Value: expires},
		}
		i.setString(attrScope, scope)
		i.setString(attrOperation, operation)
		i.setString(attrKey, key)
		i.setBytes(attrFingerprint, fingerprint)
		i.setBytes(attrHeader, header)
		i.setBytes(attrBody, body)
		r, err := decode(i)
		if err != nil {
			return
		}
		if r.status < 100 || r.status > 999 {
			t.Errorf("status %d", r.status)
		}
		if r.Identity != (idempotency.Identity{Scope: scope, Operation: operation, Key: key}) ||
			string(r.fingerprint) != string(fingerprint) || string(r.body) != string(body) {
			t.Errorf("%v became %+v", i, r)
		}
		for name := range i {
			damaged := maps.Clone(i)
			damaged[name] = &types.AttributeValueMemberBOOL{}
			if _, err := decode(damaged); err == nil {
				t.Errorf("attribute %s is of another kind: no error", name)
			}
		}
		for _, name := range []string{attrToken, attrCreatedAt, attrExpiresAt} {
			damaged := maps.Clone(i)
			delete(damaged, name)
			if _, err := decode(damaged); err == nil {
				t.Errorf("attribute %s is missing: no error", name)
			}
		}
	})
}

// The time to live never ends before what it belongs to.
func TestTTLOutlastsRecord(t *testing.T) {
	t.Parallel()
	end := time.UnixMilli(1796077540999)
	if got := ttl(end).(*types.AttributeValueMemberN).Value; got != "1796078140" {
		t.Errorf("ttl of %v is %s, want 10 minutes more", end, got)
	}
}

// Sizes are counted as the service does, so that what is too large is refused
// here.
func TestSize(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value types.AttributeValue
		want  int
	}{
		"string":     {&types.AttributeValueMemberS{Value: "löwe"}, 5},
		"number":     {&types.AttributeValueMemberN{Value: "1234"}, 3},
		"binary":     {&types.AttributeValueMemberB{Value: make([]byte, 7)}, 7},
		"strings":    {&types.AttributeValueMemberSS{Value: []string{"ab", "c"}}, 3},
		"numbers":    {&types.AttributeValueMemberNS{Value: []string{"12", "3"}}, 3},
		"binaries":   {&types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}}, 3},
		"boolean":    {&types.AttributeValueMemberBOOL{Value: true}, 1},
		"null":       {&types.AttributeValueMemberNULL{Value: true}, 1},
		"empty list": {&types.AttributeValueMemberL{}, 3},
		"list":       {&types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberS{Value: "ab"}}}, 6},
		"map":        {&types.AttributeValueMemberM{Value: item{"k": &types.AttributeValueMemberS{Value: "ab"}}}, 7},
	} {
		if got := (item{"name": c.value}).size(); got != 4+c.want {
			t.Errorf("%s: %d bytes, want %d", name, got, 4+c.want)
		}
	}
}
