// SPDX-License-Identifier: MIT

package repotest

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
)

// TestKeysInReference finds what the code reads from a config and looks for it in the
// reference, so that a key cannot come to mean something without being documented.
func TestKeysInReference(t *testing.T) {
	t.Parallel()
	keys, err := config.Keys()
	if err != nil {
		t.Fatal(err)
	}
	var paths [][]string
	for _, k := range keys {
		paths = append(paths, strings.Split(k.Path, "."))
	}
	found := 0
	for _, s := range sources(t) {
		if s.test() || !strings.HasPrefix(s.path, "appliance/") && !strings.HasPrefix(s.path, "internal/cli/") || strings.HasPrefix(s.path, "appliance/config/") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			path := keyRead(n)
			if path == nil {
				return true
			}
			found++
			if !slices.ContainsFunc(paths, func(p []string) bool { return within(p, path) }) {
				t.Errorf("%s: %s is read and is not in appliance/config/keys.txt", s.fset.Position(n.Pos()), strings.Join(path, "."))
			}
			return true
		})
	}
	if found < 30 {
		t.Errorf("found %d reads of keys; the search no longer sees them", found)
	}
}

// keyRead returns the key that a call reads from a view of a config, with "<name>" for what is
// no literal; nil if n is no such call.
func keyRead(n ast.Node) []string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return nil
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Bool", "Int", "Float", "Strings", "Value", "String", "Map", "Duration", "Has"}, f.Sel.Name) || !isView(f.X) {
		return nil
	}
	var path []string
	for i, a := range call.Args {
		lit, ok := a.(*ast.BasicLit)
		switch {
		case ok && lit.Kind == token.STRING:
			s, err := strconv.Unquote(lit.Value)
			if err != nil {
				return nil
			}
			path = append(path, s)
		case i == 0:
			return nil // a path that was put together elsewhere
		default:
			path = append(path, "<name>")
		}
	}
	return path
}

// isView knows views by how the code calls them.
func isView(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "v" || x.Name == "view"
	case *ast.SelectorExpr:
		return x.Sel.Name == "v" || x.Sel.Name == "view"
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "With"
	}
	return false
}

// within reports whether a key of the reference is the one that is read, or below it.
func within(ref, read []string) bool {
	if len(ref) < len(read) {
		return false
	}
	for i, seg := range read {
		if seg != ref[i] && seg != "<name>" && !strings.HasPrefix(ref[i], "<") {
			return false
		}
	}
	return true
}
