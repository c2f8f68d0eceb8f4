package testenv

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// galeraNodes is how many nodes a cluster has: the fewest of which two are a
// majority.
const galeraNodes = 3

// processGalera is the one Galera cluster of this test process.
var processGalera = sync.OnceValues(func() ([]string, error) {
	nodes, err := startGalera()
	if err != nil {
		return nil, err
	}
	var dsns []string
	for _, n := range nodes {
		dsns = append(dsns, n.dsn)
	}
	return dsns, said("Galera", func() (string, error) { return mysqlVariable(dsns[0], "wsrep_provider_version") })
})

// Galera returns the data source names of a new, empty database on the nodes
// of a Galera cluster. It is dropped when the test ends. All tests of a process
// share one cluster.
func Galera(tb testing.TB) []string {
	tb.Helper()
	nodes, err := processGalera()
	if err != nil {
		missing(tb, "a Galera cluster", "install mariadb-server, galera-4 and rsync", err)
	}
	return newMySQLDatabase(tb, nodes...)
}

// OwnGalera starts a cluster that ends with the test and whose nodes can crash.
// Each has a database of the same name.
func OwnGalera(tb testing.TB) []*MariaDBServer {
	tb.Helper()
	nodes, err := startGalera()
	if err != nil {
		missing(tb, "a Galera cluster of its own", "install mariadb-server, galera-4 and rsync", err)
	}
	tb.Cleanup(func() {
		for _, n := range nodes {
			n.process.stop()
			os.RemoveAll(n.dir)
		}
	})
	const name = "idem_test"
	if err := executeMySQL(nodes[0].dsn, "CREATE DATABASE "+name); err != nil {
		tb.Fatalf("testenv: create a database for this test: %v", err)
	}
	for _, n := range nodes {
		n.DSN = withMySQLDatabase(n.dsn, name)
	}
	return nodes
}

// Rejoin starts a node of a cluster again that has crashed, on the same port and
// data. It looks up how far it had come, as Debian's service does, and gets the
// rest from another node.
func (s *MariaDBServer) Rejoin(tb testing.TB) {
	tb.Helper()
	recovery := command(s.dir, s.argv[0], slices.Concat(s.argv[1:], []string{"--wsrep-recover"})...)
	text, err := recovery.CombinedOutput()
	if err != nil {
		tb.Fatalf("testenv: recover the position of a Galera node: %v\n%s", err, text)
	}
	_, position, found := strings.Cut(string(text), "WSREP: Recovered position: ")
	if !found {
		tb.Fatalf("testenv: a Galera node does not tell its position:\n%s", text)
	}
	position, _, _ = strings.Cut(position, "\n")
	position, _, _ = strings.Cut(position, ",") // before the position of the binary log
	if s.process, err = supervise(s.dir, "KILL", slices.Concat(s.argv, []string{"--wsrep-start-position=" + position})); err != nil {
		tb.Fatal(err)
	}
	if err := s.process.waitReady(func(ctx context.Context) error { return isSynced(ctx, s.dsn) }); err != nil {
		tb.Fatal(err)
	}
}

func startGalera() ([]*MariaDBServer, error) {
	program, provider, err := galeraProgram()
	if err != nil {
		return nil, err
	}
	const attempts = 3 // other programs can take a port that was free
	for range attempts {
		var nodes []*MariaDBServer
		if nodes, err = startGaleraOnce(program, provider); err == nil {
			return nodes, nil
		}
	}
	return nil, fmt.Errorf("start a Galera cluster, %d attempts: %w", attempts, err)
}

func startGaleraOnce(program, provider string) (nodes []*MariaDBServer, err error) {
	defer func() {
		if err != nil {
			for _, n := range nodes {
				n.process.stop()
			}
		}
	}()
	name := rand.Text() // at most 32 bytes
	var group []string  // the nodes' addresses in it
	for range galeraNodes {
		dir, err := makeDir()
		if err != nil {
			return nil, err
		}
		var ports [4]string // of clients, the group, and the transfers of a part and of the whole state
		for j := range ports {
			if ports[j], err = freePort(); err != nil {
				os.RemoveAll(dir)
				return nil, err
			}
		}
		argv, err := mariaDBCommand(program, dir, ports[0])
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		argv = append(argv, "--wsrep-on=ON", "--wsrep-provider="+provider, "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
			"--wsrep-cluster-name="+name, "--wsrep-node-address=127.0.0.1", "--wsrep-sst-method=rsync",
			"--wsrep-sst-receive-address=127.0.0.1:"+ports[3],
			"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:"+ports[1]+";ist.recv_addr=127.0.0.1:"+ports[2]+";gcache.size=32M")
		// The first node founds the cluster, for which it names no other.
		p, err := supervise(dir, "KILL", append(argv, clusterAddress(group)))
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		n := &MariaDBServer{dsn: mariaDBDSN(ports[0]), dir: dir, argv: argv, process: p}
		nodes = append(nodes, n)
		group = append(group, "127.0.0.1:"+ports[1])
		if err := p.waitReady(func(ctx context.Context) error { return isSynced(ctx, n.dsn) }); err != nil {
			return nil, err
		}
	}
	for _, n := range nodes { // which one that starts again looks for
		n.argv = append(n.argv, clusterAddress(group))
	}
	return nodes, nil
}

// clusterAddress is the setting that names the nodes to look for.
func clusterAddress(group []string) string {
	return "--wsrep-cluster-address=gcomm://" + strings.Join(group, ",")
}

// isSynced tells whether a node takes part in its cluster.
func isSynced(ctx context.Context, dsn string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	var name, state string
	if err := db.QueryRowContext(ctx, "SHOW STATUS LIKE 'wsrep_local_state_comment'").Scan(&name, &state); err != nil {
		return err
	}
	if state != "Synced" {
		return fmt.Errorf("the node is %s", strings.ToLower(state))
	}
	return nil
}

// galeraProgram returns the server's program and its replication library.
func galeraProgram() (program, provider string, err error) {
	if program, provider = findGalera(); provider != "" {
		return program, provider, nil
	}
	for _, pkg := range []string{"mariadb-server", "galera-4", "rsync"} {
		if err := install(pkg); err != nil {
			return "", "", fmt.Errorf("%w: no Galera cluster can be made, and %w", errUnavailable, err)
		}
	}
	if program, provider = findGalera(); provider != "" {
		return program, provider, nil
	}
	return "", "", errors.New("packages mariadb-server, galera-4 and rsync are installed, but not all of their programs are found")
}

func findGalera() (program, provider string) {
	program = findMariaDB()
	for _, tool := range []string{"wsrep_sst_rsync", "rsync"} {
		if _, err := exec.LookPath(tool); err != nil || program == "" {
			return "", ""
		}
	}
	for _, pattern := range []string{"/usr/lib/galera/libgalera_smm.so", "/usr/lib*/galera-4/libgalera_smm.so"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 { // the patterns are well-formed
			return program, found[0]
		}
	}
	return "", ""
}
