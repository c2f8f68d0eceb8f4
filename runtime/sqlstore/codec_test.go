package sqlstore_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/idemgen/idemgen/runtime/idempotency"
	"github.com/idemgen/idemgen/runtime/internal/testcodec"
	"github.com/idemgen/idemgen/runtime/sqlstore"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// Stores with different codecs share a table.
func TestCodecs(t *testing.T) {
	t.Parallel()
	storetest.RunCodecs(t, func(t *testing.T) storetest.CodecFixture[*sql.Tx] {
		file := filepath.Join(t.TempDir(), "test.db")
		pool := func() *sql.DB { return openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 1) }
		db := pool()
		prepare(t, db)
		return storetest.CodecFixture[*sql.Tx]{
			Open: func(c idempotency.Codec) storetest.Store[*sql.Tx] {
				return newStore(t, pool(), sqlstore.WithCodec(c))
			},
			Effect:  effect,
			Effects: func(ctx context.Context, label string) (int, error) { return countEffects(ctx, db, label) },
		}
	})
}

// So do stores on each server, by pools that are too small to lose a connection.
func TestCodecsOnServers(t *testing.T) {
	t.Parallel()
	for _, server := range servers() {
		t.Run(server.name, func(t *testing.T) {
			t.Parallel()
			db, dsn := server.pool(t)
			var tables atomic.Int32
			storetest.RunCodecs(t, func(t *testing.T) storetest.CodecFixture[*sql.Tx] {
				number := tables.Add(1)
				f := server.fixture(t, db, db, number)
				table := sqlstore.WithTable(fmt.Sprintf("records_%d", number))
				return storetest.CodecFixture[*sql.Tx]{
					Open: func(c idempotency.Codec) storetest.Store[*sql.Tx] {
						return server.store(t, dsn, 2, table, sqlstore.WithCodec(c))
					},
					Effect:  f.Effect,
					Effects: f.Effects,
				}
			})
		})
	}
}

// A store with a codec does all that one without does.
func TestConformanceWithCodec(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness[*sql.Tx]{OneWriter: true, Open: func(t *testing.T) storetest.Fixture[*sql.Tx] {
		file := filepath.Join(t.TempDir(), "test.db")
		pool := func() *sql.DB { return openDB(t, file, pragmas+"_pragma=journal_mode(wal)", 1) }
		db, codec := pool(), testcodec.Encrypting(t)
		prepare(t, db)
		return storetest.Fixture[*sql.Tx]{
			Store:   newStore(t, db, sqlstore.WithCodec(codec)),
			Replica: newStore(t, pool(), sqlstore.WithCodec(codec)),
			Effect:  effect,
			Effects: func(ctx context.Context, label string) (int, error) { return countEffects(ctx, db, label) },
			Advance: func(ctx context.Context, d time.Duration) error {
				_, err := db.ExecContext(ctx, `UPDATE idempotency_records SET created_at = created_at - ?1, expires_at = expires_at - ?1`, d.Milliseconds())
				return err
			},
		}
	}})
}

// Rows of a real table that somebody has changed, put in each other's place or
// replaced by plain ones are not replayed, and their requests not executed again.
func TestChangedRows(t *testing.T) {
	t.Parallel()
	db := openDB(t, filepath.Join(t.TempDir(), "test.db"), pragmas+"_pragma=journal_mode(wal)", 1)
	prepare(t, db)
	s := newStore(t, db, sqlstore.WithCodec(testcodec.Encrypting(t)))
	ask := func(key string, work idempotency.Work[*sql.Tx]) (idempotency.Result, error) {
		return s.Execute(t.Context(), request(key), work)
	}
	for _, key := range []string{"k", "other"} {
		if _, err := ask(key, pay(key)); err != nil {
			t.Fatal(err)
		}
	}
	change := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
			t.Fatal(err)
		}
	}
	var header, body []byte
	if err := db.QueryRowContext(t.Context(), `SELECT header, body FROM idempotency_records WHERE key = 'k'`).Scan(&header, &body); err != nil {
		t.Fatal(err)
	}
	put := func(header, body []byte) {
		t.Helper()
		change(`UPDATE idempotency_records SET header = ?, body = ? WHERE key = 'k'`, header, body)
	}
	refused := func(what, key string) {
		t.Helper()
		_, err := ask(key, func(context.Context, *sql.Tx) (idempotency.Response, error) {
			t.Errorf("%s: work ran again", what)
			return idempotency.Response{}, nil
		})
		var unreadable *idempotency.UnreadableError
		if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.As(err, &unreadable) {
			t.Errorf("%s: %v, want %v", what, err, idempotency.ErrOutcomeUnknown)
		}
	}
	for i := range header {
		changed := bytes.Clone(header)
		changed[i] ^= 0xff
		put(changed, body)
		refused(fmt.Sprint("header byte ", i), "k")
	}
	for i := range body {
		changed := bytes.Clone(body)
		changed[i] ^= 1
		put(header, changed)
		refused(fmt.Sprint("body byte ", i), "k")
	}
	put([]byte{}, body)
	refused("no header", "k")
	put([]byte("Content-Type: text/plain\r\n"), []byte("forged"))
	refused("plain", "k")
	put(header, body)
	if _, err := ask("k", nil); err != nil {
		t.Errorf("as it was: %v", err)
	}
	change(`UPDATE idempotency_records SET (header, body) =
		(SELECT header, body FROM idempotency_records WHERE key = 'other') WHERE key = 'k'`)
	refused("another's answer", "k")
	put(header, body)
	change(`UPDATE idempotency_records SET status = 200 WHERE key = 'k'`)
	refused("another status", "k")
	if n, err := countEffects(t.Context(), db, "k"); err != nil || n != 1 {
		t.Errorf("%d effects, %v; want 1", n, err)
	}
}
