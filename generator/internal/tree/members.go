package tree

import (
	"strings"

	"github.com/idemgen/idemgen/generator/internal/diag"
)

// Member reads one member of an object.
type Member struct {
	Name string
	Read func(Field)
}

// Members hands the members of an object to their readers. An unknown member
// is a finding, and so is a value that is no object; what names the object in
// both.
func Members(v Value, what string, known ...Member) diag.List {
	if !v.IsMap() {
		return diag.List{diag.Errorf(v.Pos(), "wrong-type", "%s must be an object, not %s", what, v.Kind())}
	}
	var findings diag.List
	var names []string
	for _, k := range known {
		names = append(names, k.Name)
	}
fields:
	for _, f := range v.Fields() {
		for _, k := range known {
			if k.Name == f.Name {
				k.Read(f)
				continue fields
			}
		}
		hint := "known are " + strings.Join(names, ", ")
		if near := diag.Nearest(f.Name, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		findings = append(findings, diag.Errorf(f.Key.Pos(), "unknown-key", "there is no setting %s in %s; %s", Quote(f.Name), what, hint))
	}
	return findings
}
