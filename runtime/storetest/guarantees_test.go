package storetest_test

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/memstore"
	"github.com/idemgen/idemgen/runtime/pgxstore"
	"github.com/idemgen/idemgen/runtime/redisstore"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// stores are those of this module, in the order of the documents' tables.
var stores = []struct {
	name       string
	guarantees idempotency.Guarantees
	durable    bool // an idempotency.DurableStore
}{
	{"pgxstore", new(pgxstore.Store).Guarantees(), isDurable[pgx.Tx](new(pgxstore.Store))},
	{"sqlstore", new(sqlstore.Store).Guarantees(), isDurable[*sql.Tx](new(sqlstore.Store))},
	{"redisstore", new(redisstore.Store).Guarantees(), isDurable[*redisstore.Tx](new(redisstore.Store))},
	{"dynamostore", new(dynamostore.Store).Guarantees(), isDurable[*dynamostore.Tx](new(dynamostore.Store))},
	{"memstore", new(memstore.Store).Guarantees(), isDurable[struct{}](new(memstore.Store))},
}

func isDurable[Tx any](s storetest.Store[Tx]) bool {
	_, ok := s.(idempotency.DurableStore[Tx])
	return ok
}

// A server that takes an idempotency.DurableStore does not compile with a store
// that can lose an acknowledged answer.
func TestDurableStores(t *testing.T) {
	t.Parallel()
	for _, s := range stores {
		if want := s.name != "redisstore" && s.name != "memstore"; s.durable != want {
			t.Errorf("%s is a DurableStore: %v", s.name, s.durable)
		}
	}
}

// tables are the documents that say what each store promises.
var tables = []string{"../../docs/reliability.md"}

// What the documents say that stores promise is what the stores say.
func TestGuaranteesAreDocumented(t *testing.T) {
	t.Parallel()
	row := regexp.MustCompile("^\\| `?(?:runtime/)?([a-z]+store)`? \\| ")
	for _, file := range tables {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, table, found := strings.Cut(string(text), "| store | atomic with the answer | fenced by | an answer survives | because |\n")
		if !found {
			t.Errorf("%s has no table of what stores promise", file)
			continue
		}
		lines := strings.Split(table, "\n")[1:]
		for i, s := range stores {
			cells := strings.Split(strings.Trim(lines[i], "| "), " | ")
			g := s.guarantees
			if name := row.FindStringSubmatch(lines[i]); name == nil || name[1] != s.name || len(cells) != 5 ||
				cells[1] != string(g.Atomic) || cells[2] != string(g.Fenced) || cells[3] != string(g.Survives) {
				t.Errorf("%s: %q; %s says %+v", file, lines[i], s.name, g)
			}
		}
		if len(lines) > len(stores) && strings.HasPrefix(lines[len(stores)], "|") {
			t.Errorf("%s: %q is of no store", file, lines[len(stores)])
		}
	}
}
