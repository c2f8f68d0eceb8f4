package idempotencykey

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ast/edge"
	"golang.org/x/tools/go/ast/inspector"
)

// hoist suggests to make a key before the loop or call around it, where that
// takes no more than moving it: the call needs nothing, and its name is free.
func (c *checker) hoist(cur inspector.Cursor, call *ast.CallExpr, around inspector.Cursor) []analysis.SuggestedFix {
	fun := ast.Unparen(call.Fun)
	if c.receiver(call) != nil || len(call.Args) > 0 || !isKey(c.pass.TypesInfo.TypeOf(call)) {
		return nil
	}
	if v := c.variable(fun); v != nil { // a function value may change with the attempt
		return nil
	}
	statement, ok := statementAround(around)
	if !ok {
		return nil
	}
	indent := c.indentOf(statement.Node())
	made := text(call)

	// key := New() moves as it is; a call inside an expression gets a name.
	if define, ok := cur.Parent().Node().(*ast.AssignStmt); ok && len(define.Lhs) == 1 {
		name, isName := define.Lhs[0].(*ast.Ident)
		if !isName || define.Tok.String() != ":=" || cur.Parent().Parent().Node() != bodyOf(around.Node()) ||
			!c.isFree(name.Name, statement) || c.setAgain(name, around) {
			return nil
		}
		return []analysis.SuggestedFix{{
			Message: "Make the key before the attempts",
			TextEdits: []analysis.TextEdit{
				{Pos: statement.Node().Pos(), End: statement.Node().Pos(), NewText: []byte(name.Name + " := " + made + "\n" + indent)},
				c.removeLine(define),
			},
		}}
	}
	const name = "key"
	if !c.isFree(name, statement) || c.uses(name, around) {
		return nil
	}
	return []analysis.SuggestedFix{{
		Message: "Make the key before the attempts",
		TextEdits: []analysis.TextEdit{
			{Pos: statement.Node().Pos(), End: statement.Node().Pos(), NewText: []byte(name + " := " + made + "\n" + indent)},
			{Pos: call.Pos(), End: call.End(), NewText: []byte(name)},
		},
	}}
}

// bodyOf returns what runs once for each attempt.
func bodyOf(n ast.Node) ast.Node {
	switch n := n.(type) {
	case *ast.ForStmt:
		return n.Body
	case *ast.RangeStmt:
		return n.Body
	case *ast.FuncLit:
		return n.Body
	}
	return nil
}

// statementAround returns the statement of a block that cur is a part of.
func statementAround(cur inspector.Cursor) (inspector.Cursor, bool) {
	for {
		parent := cur.Parent()
		switch parent.Node().(type) {
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
			_, ok := cur.Node().(ast.Stmt)
			return cur, ok
		case *ast.FuncDecl, *ast.File, nil:
			return cur, false
		}
		cur = parent
	}
}

// isFree tells whether a variable can get that name before a statement,
// without hiding another one.
func (c *checker) isFree(name string, statement inspector.Cursor) bool {
	scope := c.pass.Pkg.Scope().Innermost(statement.Node().Pos())
	if scope == nil {
		return false
	}
	if scope.Lookup(name) != nil { // declared in the same block, perhaps below
		return false
	}
	_, object := scope.LookupParent(name, statement.Node().Pos())
	return object == nil
}

// uses tells whether something in around has that name already.
func (c *checker) uses(name string, around inspector.Cursor) bool {
	for cur, id := range each[*ast.Ident](around) {
		if id.Name == name && cur.ParentEdgeKind() != edge.SelectorExpr_Sel {
			return true
		}
	}
	return false
}

// setAgain tells whether the variable that name defines gets another value.
func (c *checker) setAgain(name *ast.Ident, around inspector.Cursor) bool {
	v := c.variable(name)
	return v == nil || len(c.flowAround(around)[v]) != 1
}

// indentOf returns the white space before the first statement of a line.
func (c *checker) indentOf(n ast.Node) string {
	file := c.pass.Fset.File(n.Pos())
	content, err := c.pass.ReadFile(file.Name())
	if err != nil {
		return ""
	}
	start := file.Offset(file.LineStart(file.Line(n.Pos())))
	line := string(content[start:file.Offset(n.Pos())])
	return line[:len(line)-len(strings.TrimLeft(line, " \t"))]
}

// removeLine removes a statement, and its line if nothing else stands there.
func (c *checker) removeLine(n ast.Node) analysis.TextEdit {
	file := c.pass.Fset.File(n.Pos())
	line := file.Line(n.Pos())
	edit := analysis.TextEdit{Pos: n.Pos(), End: n.End()}
	content, err := c.pass.ReadFile(file.Name())
	if err != nil || file.Line(n.End()) != line || line == file.LineCount() {
		return edit
	}
	start, next := file.LineStart(line), file.LineStart(line+1)
	before := string(content[file.Offset(start):file.Offset(n.Pos())])
	after := string(content[file.Offset(n.End()):file.Offset(next)])
	if strings.TrimSpace(before)+strings.TrimSpace(after) == "" {
		edit.Pos, edit.End = start, next
	}
	return edit
}
