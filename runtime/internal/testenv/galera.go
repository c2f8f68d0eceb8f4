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
	"strings"
	"sync"
	"testing"
)

// galeraNodes is how many nodes a cluster has: the fewest of which two are a
// majority.
const galeraNodes = 3

// processGalera is the one Galera cluster of this test process.
var processGalera = sync.OnceValues(startGalera)

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

func startGalera() ([]string, error) {
	program, provider, err := galeraProgram()
	if err != nil {
		return nil, err
	}
	const attempts = 3 // other programs can take a port that was free
	for range attempts {
		var nodes []string
		if nodes, err = startGaleraOnce(program, provider); err == nil {
			return nodes, nil
		}
	}
	return nil, fmt.Errorf("start a Galera cluster, %d attempts: %w", attempts, err)
}

func startGaleraOnce(program, provider string) (dsns []string, err error) {
	var processes []*process
	defer func() {
		if err != nil {
			for _, p := range processes {
				p.stop()
			}
		}
	}()
	name := rand.Text() // at most 32 bytes
	join := "gcomm://"  // the address of a node that is there; none founds the cluster
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
			"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:"+ports[1]+";ist.recv_addr=127.0.0.1:"+ports[2]+";gcache.size=32M",
			"--wsrep-cluster-address="+join)
		join = "gcomm://127.0.0.1:" + ports[1]
		p, err := supervise(dir, "KILL", argv)
		if err != nil {
			os.RemoveAll(dir)
			return nil, err
		}
		processes = append(processes, p)
		dsn := mariaDBDSN(ports[0])
		if err := p.waitReady(func(ctx context.Context) error { return isSynced(ctx, dsn) }); err != nil {
			return nil, err
		}
		dsns = append(dsns, dsn)
	}
	return dsns, nil
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
