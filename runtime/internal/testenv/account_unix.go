//go:build unix

package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// serverAccount is who servers run as when the tests run as root, which
// PostgreSQL and PgBouncer refuse. It must have an entry in the password file.
const serverAccount = "nobody"

// makeDir makes a directory for one server, owned by the account it runs as.
func makeDir() (string, error) {
	if os.Geteuid() != 0 {
		return makeDirIn("")
	}
	// root's own TMPDIR may lie where the account cannot go.
	return makeDirIn("/tmp")
}

// makeDirIn makes a directory below another one, by default that of temporary
// files.
func makeDirIn(parent string) (string, error) {
	dir, err := os.MkdirTemp(parent, "idemgen-")
	if err != nil || os.Geteuid() != 0 {
		return dir, err
	}
	uid, gid, err := serverIDs()
	if err != nil {
		os.Remove(dir)
		return "", err
	}
	return dir, os.Chown(dir, int(uid), int(gid))
}

// cacheDir returns the directory of what is fetched once for many test
// processes. Servers can read it.
func cacheDir() (string, error) {
	dir := "/var/cache/idemgen-tests" // root's own cache lies where the servers' account cannot go
	if os.Geteuid() != 0 {
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(cache, "idemgen-tests")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// asServerAccount lowers a root process's privileges for cmd, and keeps the
// terminal's interrupt from reaching it: servers end with the test process.
func asServerAccount(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() != 0 {
		return
	}
	uid, gid, err := serverIDs()
	if err != nil {
		cmd.Err = err
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
}

func serverIDs() (uid, gid uint32, err error) {
	account, err := user.Lookup(serverAccount)
	if err != nil {
		return 0, 0, fmt.Errorf("servers cannot run as root: %w", err)
	}
	ids := [2]uint32{}
	for i, text := range []string{account.Uid, account.Gid} {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			return 0, 0, fmt.Errorf("account %s: %w", serverAccount, err)
		}
		ids[i] = uint32(id)
	}
	return ids[0], ids[1], nil
}
