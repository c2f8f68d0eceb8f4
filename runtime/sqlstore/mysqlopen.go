package sqlstore

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
)

func (mysql) open(ctx context.Context, db *sql.DB, c config) (engine, error) {
	if c.reader != nil {
		return nil, errReader
	}
	e := &mysqlEngine{db: db}
	if err := e.verify(ctx, c.table); err != nil {
		return nil, fmt.Errorf("sqlstore: %w", err)
	}
	e.write()
	return e, e.prepare(ctx)
}

// verify refuses a database that cannot keep the guarantee.
func (e *mysqlEngine) verify(ctx context.Context, table string) error {
	conn, err := e.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := e.inspect(ctx, conn, table); err != nil {
		return err
	}
	// What is set through the pool after opening it holds for one connection. A
	// second one shows that.
	if e.db.Stats().MaxOpenConnections != 1 {
		second, err := e.db.Conn(ctx)
		if err != nil {
			return err
		}
		defer second.Close()
		if err := e.inspect(ctx, second, table); err != nil {
			return err
		}
		if err := e.checkLocks(ctx, conn, second); err != nil {
			return err
		}
	}
	found, err := inspectMySQL(ctx, conn, table)
	if err == nil && !found {
		err = fmt.Errorf("%w; if it is there, the user has no right on it: %s", missingTable(table, "mysql", "mysql DATABASE"), e.grant(ctx))
	}
	return err
}

// inspect refuses a session that cannot keep the guarantee, and learns what
// differs between servers.
func (e *mysqlEngine) inspect(ctx context.Context, conn *sql.Conn, table string) error {
	var database sql.NullString
	if err := conn.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return err
	}
	v, err := mysqlVariables(ctx, conn)
	if err != nil {
		return err
	}
	isolation := v["transaction_isolation"]
	if isolation == "" {
		isolation = v["tx_isolation"] // MariaDB before 11.1
	}
	mariaDB := strings.Contains(v["version"], "MariaDB")
	e.cluster = v["wsrep_on"] == "ON"
	switch {
	case !database.Valid:
		return errors.New("the data source name names no database: add it after the slash, as in user@tcp(host:3306)/database")
	case v["autocommit"] != "ON":
		return errors.New("autocommit is off, so that sessions of the pool keep old snapshots: leave autocommit=0 out of the data source name and of init_connect; a handler's transaction needs no such setting")
	case isolation == "READ-UNCOMMITTED":
		return errors.New("the isolation level is READ UNCOMMITTED, at which an answer could be replayed that is rolled back later: choose another one in the data source name, such as READ COMMITTED")
	case v["read_only"] != "OFF" || v["super_read_only"] == "ON" || v["innodb_read_only"] == "ON" || v["tx_read_only"] == "ON" || v["transaction_read_only"] == "ON":
		return errMySQLReadOnly
	case e.cluster && mariaDB:
		e.synced = "SET STATEMENT wsrep_sync_wait = 1 FOR "
	case e.cluster && !syncsReads(v["wsrep_sync_wait"]):
		return errors.New("reads on a node of this cluster can be stale: add wsrep_sync_wait=1 to the data source name")
	}
	if e.maxPacket, err = strconv.Atoi(v["max_allowed_packet"]); err != nil {
		return fmt.Errorf("max_allowed_packet: %w", err)
	}
	e.table = backquoted(database.String) + "." + backquoted(table)
	h := fnv.New64a()
	h.Write([]byte(e.table))
	e.locks = fmt.Sprintf("idemgen:%016x:", h.Sum64())
	return nil
}

// syncsReads reports whether a value of wsrep_sync_wait covers reads.
func syncsReads(value string) bool {
	bits, err := strconv.Atoi(value)
	return err == nil && bits&1 != 0
}

func mysqlVariables(ctx context.Context, conn *sql.Conn) (map[string]string, error) {
	rows, err := conn.QueryContext(ctx, `SHOW SESSION VARIABLES WHERE Variable_name IN ('version', 'autocommit', 'tx_isolation',
		'transaction_isolation', 'tx_read_only', 'transaction_read_only', 'read_only', 'super_read_only', 'innodb_read_only',
		'max_allowed_packet', 'wsrep_on', 'wsrep_sync_wait')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	v := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[name] = value
	}
	return v, rows.Err()
}

// checkLocks refuses a server whose locks keep no other session out: every
// duplicate would run in vain, and wait for the first attempt at its end. In a
// cluster the two sessions may be on different nodes.
func (e *mysqlEngine) checkLocks(ctx context.Context, conn, other *sql.Conn) error {
	if e.cluster {
		return nil
	}
	lock := e.locks + rand.Text()
	take := func(conn *sql.Conn) (taken sql.NullBool, err error) {
		err = conn.QueryRowContext(ctx, "SELECT GET_LOCK('"+lock+"', 0)").Scan(&taken)
		return taken, err
	}
	first, err := take(conn)
	if err != nil {
		return err
	}
	defer func() { _, _ = conn.ExecContext(ctx, "DO RELEASE_LOCK('"+lock+"')") }() // nobody else has this name
	second, err := take(other)
	if err != nil {
		return err
	}
	if !first.Bool || second.Bool {
		return errors.New("GET_LOCK does not keep a second session out: connect to one server, not to a proxy that spreads sessions over several")
	}
	return nil
}

// prepare parses what needs more than SELECT, and so finds out whether the user
// may do it.
func (e *mysqlEngine) prepare(ctx context.Context) error {
	r := strings.NewReplacer("$table", e.table, "$now", mysqlNow)
	remove, err := e.db.PrepareContext(ctx, r.Replace("DELETE FROM $table WHERE id = ?"))
	if err == nil {
		remove.Close()
		e.store, err = e.db.PrepareContext(ctx, r.Replace("INSERT INTO $table"+
			" (id, scope, operation, `key`, fingerprint, status, header, `body`, created_at, expires_at, lease_token)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?, ?, $now, $now + ?, ?)"))
	}
	if err == nil {
		e.complete, err = e.db.PrepareContext(ctx, e.leases.complete)
	}
	switch mysqlNumber(err) {
	case mysqlDenied, mysqlColumnDenied:
		return fmt.Errorf("sqlstore: the user may not use the table: %s\n%w", e.grant(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("sqlstore: the table %s cannot be written: %w", e.table, err)
	}
	return nil
}

// grant is the statement that gives the user its rights.
func (e *mysqlEngine) grant(ctx context.Context) string {
	var user string
	if err := e.db.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&user); err != nil {
		return ""
	}
	name, host := user, "%"
	if at := strings.LastIndexByte(user, '@'); at >= 0 {
		name, host = user[:at], user[at+1:]
	}
	return "GRANT SELECT, INSERT, UPDATE, DELETE ON " + e.table + " TO " + backquoted(name) + "@" + backquoted(host) + ";"
}

func backquoted(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// mysqlTypes are the columns of the table. Those of leases can be null, and
// tables of earlier versions lack them.
var mysqlTypes = []struct{ name, kind string }{
	{"id", "binary(16)"},
	{"scope", "longblob"},
	{"operation", "longblob"},
	{"key", "longblob"},
	{"fingerprint", "varbinary(64)"},
	{"status", "smallint"},
	{"header", "longblob"},
	{"body", "longblob"},
	{"created_at", "bigint"},
	{"expires_at", "bigint"},
	{"lease_token", "binary(16)"},
	{"lease_until", "bigint"},
}

// inspectMySQL looks into the catalog and says whether the table is there. Its
// error says what is wrong with one that is, and how to make it right.
func inspectMySQL(ctx context.Context, conn *sql.Conn, table string) (found bool, err error) {
	var kind string
	var engine, transactions sql.NullString
	err = conn.QueryRowContext(ctx, `SELECT t.table_type, t.engine, e.transactions FROM information_schema.tables AS t
		LEFT JOIN information_schema.engines AS e ON e.engine = t.engine
		WHERE t.table_schema = DATABASE() AND t.table_name = ?`, table).Scan(&kind, &engine, &transactions)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if kind == "VIEW" {
		return true, errView(table)
	}
	f, err := faultsOfMySQL(ctx, conn, table)
	if err != nil {
		return true, err
	}
	if transactions.String != "YES" {
		f.wrong = append(f.wrong, fmt.Sprintf("it is kept by %s, which knows no transactions, so that answers would be stored for effects that were rolled back: ALTER TABLE `%s` ENGINE=InnoDB;", engine.String, table))
	}
	return true, f.of("`"+table+"`", schemaCommand("mysql", table))
}

// faultsOfMySQL returns what is wrong with the table's columns and indexes.
func faultsOfMySQL(ctx context.Context, conn *sql.Conn, table string) (f faults, err error) {
	rows, err := conn.QueryContext(ctx, `SELECT column_name, column_type, is_nullable, column_default IS NULL AND extra = '', column_key = 'PRI',
		COALESCE(CONCAT(' CHARACTER SET ', character_set_name, ' COLLATE ', collation_name), ''),
		(SELECT count(*) FROM information_schema.statistics AS s WHERE s.table_schema = c.table_schema AND s.table_name = c.table_name
			AND s.column_name = c.column_name AND s.seq_in_index = 1 AND (c.column_name <> 'id' OR s.non_unique = 0 AND s.sub_part IS NULL
			AND NOT EXISTS (SELECT 1 FROM information_schema.statistics AS n WHERE n.table_schema = s.table_schema AND n.table_name = s.table_name
				AND n.index_name = s.index_name AND n.seq_in_index = 2)))
		FROM information_schema.columns AS c WHERE table_schema = DATABASE() AND table_name = ? ORDER BY ordinal_position`, table)
	if err != nil {
		return faults{}, err
	}
	defer rows.Close()
	alter := "ALTER TABLE `" + table + "` "
	wanted := slices.Clone(mysqlTypes)
	for rows.Next() {
		var name, kind, nullable, collation string
		var bare, primary bool // it has no value by itself; it is a part of the primary key
		var indexes int
		if err := rows.Scan(&name, &kind, &nullable, &bare, &primary, &collation, &indexes); err != nil {
			return faults{}, err
		}
		i := slices.IndexFunc(wanted, func(want struct{ name, kind string }) bool { return want.name == name })
		switch {
		case i >= 0:
			f.wrong = append(f.wrong, faultsOfMySQLColumn(alter, wanted[i].kind, name, kind, nullable == "YES", indexes > 0)...)
			wanted = slices.Delete(wanted, i, i+1)
		case nullable == "NO" && bare:
			modify := "MODIFY " + backquoted(name) + " " + kind + collation + " NULL;"
			if primary {
				modify = "DROP PRIMARY KEY, ADD PRIMARY KEY (`id`), " + modify
			}
			f.wrong = append(f.wrong, "column "+name+" is not the store's, and NOT NULL without a default: "+alter+modify)
		}
	}
	var missing []string
	for _, w := range wanted {
		if isOfLeases(w.name) {
			missing = append(missing, w.name+" "+w.kind)
		} else {
			f.absent = append(f.absent, w.name)
		}
	}
	if missing != nil {
		f.add = addColumns("`"+table+"`", missing) + ";"
	}
	return f, rows.Err()
}

// faultsOfMySQLColumn returns what is wrong with a column that is to be of the
// type want, and with its index.
func faultsOfMySQLColumn(alter, want, name, kind string, nullable, indexed bool) (wrong []string) {
	null := map[bool]string{false: " NOT NULL", true: " NULL"}
	is, right := kind+null[nullable], want+null[isOfLeases(name)]
	// Before MySQL 8.0.19 integer types have a width: smallint(6).
	if plain, _, _ := strings.Cut(kind, "("); is != right && plain+null[nullable] != right {
		wrong = append(wrong, fmt.Sprintf("column %s is %s instead of %s: %sMODIFY `%[1]s` %[3]s;", name, is, right, alter))
	}
	switch {
	case indexed:
	case name == "id":
		wrong = append(wrong, "no unique index on id, which the guarantee rests on: "+alter+"ADD UNIQUE KEY (`id`);")
	case name == "expires_at":
		wrong = append(wrong, "no index on expires_at, which Sweep needs: "+alter+"ADD KEY (`expires_at`);")
	}
	return wrong
}
