//go:build !unix

package testenv

import (
	"fmt"
	"os/exec"
	"runtime"
)

// makeDir refuses: servers are supervised by a Unix shell.
func makeDir() (string, error) {
	return "", fmt.Errorf("%w: servers are not started on %s", errUnavailable, runtime.GOOS)
}

func makeDirIn(string) (string, error) { return makeDir() }

func cacheDir() (string, error) { return makeDir() }

func asServerAccount(*exec.Cmd) {}
