package idempotencykey

import (
	"go/token"
	"strings"
)

// allowDirective begins a comment that allows a finding: the check's name and
// the reason follow.
const allowDirective = "//idemgen:allow "

// allowances are the checks that comments allow, by file and line.
type allowances map[string]map[int]string

func (c *checker) allowances() allowances {
	all := allowances{}
	for _, f := range c.pass.Files {
		for _, group := range f.Comments {
			for _, comment := range group.List {
				rest, found := strings.CutPrefix(comment.Text, allowDirective)
				check, reason, _ := strings.Cut(strings.TrimSpace(rest), " ")
				if !found || strings.TrimSpace(reason) == "" {
					continue
				}
				p := c.pass.Fset.Position(comment.Pos())
				if all[p.Filename] == nil {
					all[p.Filename] = map[int]string{}
				}
				all[p.Filename][p.Line] = check
			}
		}
	}
	return all
}

// allow tells whether a comment on the line of p or the one above allows a
// finding of check.
func (a allowances) allow(p token.Position, check string) bool {
	lines := a[p.Filename]
	return lines[p.Line] == check || lines[p.Line-1] == check
}
