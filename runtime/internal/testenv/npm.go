package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// npmPackage returns the directory where a package of npm, named with its
// version, and what it needs are installed below node_modules. It stays in a
// cache for other test processes. The package's own scripts do not run.
func npmPackage(name string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	return npmPackageIn(cache, name)
}

func npmPackageIn(cache, name string) (string, error) {
	npm, err := npmProgram()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnavailable, err)
	}
	dir := filepath.Join(cache, strings.Trim(strings.NewReplacer("/", "-", "@", "-").Replace(name), "-"))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	// Processes that install at the same time each do so in a directory of their
	// own. The first one's stays.
	own, err := makeDirIn(cache)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(own)
	cmd := command(own, npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", own, name)
	cmd.Env = append(cmd.Env, "HOME="+own) // for npm's own files
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: npm install %s: %w\n%s", errUnavailable, name, err, out)
	}
	if err := os.RemoveAll(filepath.Join(own, ".npm")); err != nil {
		return "", err
	}
	err = os.Rename(own, dir)
	if errors.Is(err, fs.ErrExist) { // as it is for a directory that is not empty
		err = nil
	}
	return dir, err
}

// npmProgram finds npm, beside which node is, or installs both.
func npmProgram() (string, error) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		if err := install("npm"); err != nil { // brings node
			return "", fmt.Errorf("there is no npm: %w", err)
		}
		npm, err = exec.LookPath("npm")
	}
	return npm, err
}
