package pgxstore

import (
	"context"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// statement is one of the store's own statements. Parameters and results are
// in binary format; result columns are known, so none is ever described.
type statement struct {
	name string // of the prepared statement, on connections that keep them; "" is never kept
	sql  string
	oids []uint32 // types of the parameters

	stores bool // one row, and anything else is an error
}

// bound is a statement with its parameters and what takes its rows.
type bound struct {
	*statement
	params [][]byte
	row    func(values [][]byte) error // values live only during the call
}

// with returns s with parameters.
func (s *statement) with(params ...[]byte) bound { return bound{statement: s, params: params} }

// into returns b with a function that takes its rows.
func (b bound) into(row func(values [][]byte) error) bound {
	b.row = row
	return b
}

// session is what the store knows of one connection to the server.
type session struct {
	// direct says that the connection leads to one server process for as long
	// as it lives, so that statements can stay prepared. Through a pooler in
	// transaction mode it does not: each transaction may meet another process.
	direct   bool
	known    bool            // a server process has told its number
	mixed    bool            // prepared statements got lost all the same
	prepared map[string]bool // by name
}

// met records which server process has answered on the connection. A pooler
// gives its clients process numbers of its own.
func (s *session) met(pc *pgconn.PgConn, process uint32) {
	s.known = true
	s.direct = !s.mixed && process == pc.PID()
}

// customData is the key of a connection's session in [pgconn.PgConn.CustomData].
const customData = "github.com/idemgen/idemgen/runtime/pgxstore"

// sessionOf returns the session of a connection.
func sessionOf(pc *pgconn.PgConn) *session {
	if s, ok := pc.CustomData()[customData].(*session); ok {
		return s
	}
	s := &session{prepared: make(map[string]bool)}
	pc.CustomData()[customData] = s
	return s
}

// lostError says that the connection ended, or had to be ended, before the
// server had answered all of a pipeline. Whether it was carried out is unknown.
type lostError struct{ err error }

func (e *lostError) Error() string { return "connection lost: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// pipeline sends statements in one network write and reads their answers: one
// round trip. It returns how many statements were carried out and the tag of
// the last one. An error of the server skips the statements after it and comes
// back as a [*pgconn.PgError], an error of a row function as it is; every other
// error is a [*lostError], and then the connection is closed. So it is when
// there is no answer by deadline; the zero time sets none.
//
// Where prepared statements have got lost at the start of a transaction, which
// then has done nothing, statements are sent once more, unprepared.
//
// pgx's own batches do the same with more work: they describe each statement,
// prepare under names that a pooler in transaction mode mixes up, and watch a
// context for each message.
func pipeline(pc *pgconn.PgConn, deadline time.Time, statements ...bound) (done int, tag string, err error) {
	if pc.IsClosed() { // and pgx may still be writing its farewell
		return 0, "", &lostError{net.ErrClosed}
	}
	starting := pc.TxStatus() == 'I'
	done, tag, err = exchange(pc, deadline, statements)
	if starting && isUnprepared(err) {
		if pc.TxStatus() != 'I' {
			_, _, err = exchange(pc, deadline, []bound{{statement: &statement{sql: "rollback"}}})
		}
		if !isLost(err) {
			done, tag, err = exchange(pc, deadline, statements)
		}
	}
	if isLost(err) {
		kill(pc)
	}
	return done, tag, err
}

func exchange(pc *pgconn.PgConn, deadline time.Time, statements []bound) (done int, tag string, err error) {
	conn := pc.Conn()
	if err := conn.SetDeadline(deadline); err != nil {
		return 0, "", &lostError{err}
	}
	s := sessionOf(pc)
	preparing := send(pc.Frontend(), s, statements)
	if err := pc.Frontend().Flush(); err != nil {
		return 0, "", &lostError{err}
	}
	var failure error
	for {
		msg, err := pc.ReceiveMessage(context.Background()) // the deadline ends it
		if err != nil {
			return done, tag, &lostError{err}
		}
		switch msg := msg.(type) {
		case *pgproto3.ParseComplete:
			if len(preparing) > 0 {
				s.prepared[preparing[0]] = true
				preparing = preparing[1:]
			}
		case *pgproto3.DataRow:
			if row := statements[done].row; row != nil && failure == nil {
				failure = row(msg.Values)
			}
		case *pgproto3.CommandComplete:
			if statements[done].stores && string(msg.CommandTag) != "INSERT 0 1" && failure == nil {
				failure = errDropped
			}
			done++
			tag = string(msg.CommandTag)
		case *pgproto3.ErrorResponse:
			failure = pgconn.ErrorResponseToPgError(msg)
			if isUnprepared(failure) {
				s.direct, s.mixed = false, true
			}
		case *pgproto3.ReadyForQuery:
			if err := conn.SetDeadline(time.Time{}); err != nil {
				return done, tag, &lostError{err}
			}
			return done, tag, failure
		}
	}
}

// send queues the messages of statements and returns the names of those that
// the server will prepare, in order.
func send(f *pgproto3.Frontend, s *session, statements []bound) (preparing []string) {
	for _, st := range statements {
		var name string
		if s.direct {
			name = st.name
		}
		if name == "" || !s.prepared[name] {
			f.SendParse(&pgproto3.Parse{Name: name, Query: st.sql, ParameterOIDs: st.oids})
			preparing = append(preparing, name)
		}
		f.SendBind(&pgproto3.Bind{
			PreparedStatement:    name,
			ParameterFormatCodes: binaryFormat[:],
			Parameters:           st.params,
			ResultFormatCodes:    binaryFormat[:],
		})
		f.SendExecute(&pgproto3.Execute{})
	}
	f.SendSync(&pgproto3.Sync{})
	return preparing
}

// binaryFormat asks for the binary format in every column.
var binaryFormat = [1]int16{1}

// kill ends a connection whose state is unknown. The pool replaces it. The server
// is not asked to cancel what it does: a COMMIT that waits for a synchronous
// standby would then be visible, and be replayed, though the standby does not
// have it.
func kill(pc *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = pc.Close(ctx) // what matters is that it is closed, and it always is
}
