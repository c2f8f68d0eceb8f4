package testenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// policyFile makes Debian's packages install without starting their services
// when it exits with 101.
const policyFile = "/usr/sbin/policy-rc.d"

// install gets a Debian package, as root on a machine that has apt-get. Its
// service is not started.
func install(pkg string) error {
	if os.Geteuid() != 0 {
		return errors.New("packages are installed only as root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("there is no apt-get")
	}
	f, err := os.OpenFile(policyFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	switch {
	case err == nil:
		defer os.Remove(policyFile)
		if _, err := f.WriteString("#!/bin/sh\nexit 101\n"); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	for _, args := range [][]string{
		{"update", "-q"},
		{"install", "-q", "-y", "--no-install-recommends", pkg},
	} {
		// Other test processes may be installing too.
		cmd := exec.CommandContext(context.Background(), "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=300"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s %s: %w\n%s", args[0], pkg, err, out)
		}
	}
	return nil
}
