package generator

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
)

// RunCommand runs the user's own command for oapi-codegen, if the config has
// one, in the directory of the config. The command writes its files itself; so
// that an error in the document leaves all files as they are, the document is
// checked first. Its errors are [Findings] and those of running the command.
func (c Config) RunCommand(ctx context.Context, stdout, stderr io.Writer) error {
	if len(c.Command) == 0 {
		return nil
	}
	if err := c.refuseForeignOutput(); err != nil {
		return err
	}
	if _, err := Operations(c); err != nil {
		return err
	}
	if c.Contract != "" {
		if _, err := Contract(c, c.Contract); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Dir = filepath.Dir(c.File)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: the command %q has failed: %w", c.oapiPos, strings.Join(c.Command, " "), err)
	}
	return nil
}
