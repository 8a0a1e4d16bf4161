// SPDX-License-Identifier: MIT

package repotest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// source is one parsed Go file; path is relative to the repository.
type source struct {
	path string
	file *ast.File
	text string
	fset *token.FileSet
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func (s source) pkg() string { return filepath.ToSlash(filepath.Dir(s.path)) }

const root = "../.."

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && path != root || e.Name() == "testdata" || e.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		out = append(out, source{filepath.ToSlash(rel), f, string(text), fset})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLicenceHeader(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !strings.HasPrefix(s.text, "// SPDX-License-Identifier: MIT\n") {
			t.Errorf("%s: first line is not the SPDX header", s.path)
		}
	}
}

func TestPackageDocs(t *testing.T) {
	t.Parallel()
	docs := map[string][]string{}
	seen := map[string]bool{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		seen[s.pkg()] = true
		if s.file.Doc == nil {
			continue
		}
		docs[s.pkg()] = append(docs[s.pkg()], s.path)
		text := s.file.Doc.Text()
		if want := "Package " + s.file.Name.Name + " "; s.file.Name.Name != "main" && !strings.HasPrefix(text, want) {
			t.Errorf("%s: the package doc does not start with %q", s.path, want)
		}
		if s.file.Name.Name != "main" && !strings.Contains(text, "never") && !strings.Contains(text, " no ") {
			t.Errorf("%s: the package doc does not say what the package never does", s.path)
		}
	}
	for pkg := range seen {
		if len(docs[pkg]) != 1 {
			t.Errorf("%s: package doc in %d files %v, want exactly one", pkg, len(docs[pkg]), docs[pkg])
		}
	}
}

// call is a function that only some packages may call.
type call struct {
	re     *regexp.Regexp
	allow  []string // packages
	reason string
}

func calls() []call {
	return []call{
		{regexp.MustCompile(`^os\.(WriteFile|Create|CreateTemp|Rename)$`), []string{"internal/atomicfile", "internal/testkit"}, "internal/atomicfile is the only writer"},
		{regexp.MustCompile(`^os\.(Getenv|LookupEnv|Environ|Setenv|Unsetenv|Clearenv)$`), []string{"cmd/hermes-appliance", "internal/cli", "appliance/childenv", "internal/testkit", "internal/testkit/machine"}, "the environment is handed in as a lookup function or a snapshot"},
		{regexp.MustCompile(`^os\.(Exit|Args|Stdin|Stdout|Stderr)$`), []string{"cmd/hermes-appliance"}, "only cmd is the edge of the process"},
		{regexp.MustCompile(`^signal\.(Notify|NotifyContext)$`), []string{"cmd/hermes-appliance"}, "only cmd handles signals"},
		{regexp.MustCompile(`^context\.(Background|TODO)$`), []string{"cmd/hermes-appliance"}, "a context comes from the caller"},
		{regexp.MustCompile(`^slog\.(Default|SetDefault|Info|Warn|Error|Debug)$`), nil, "a logger is handed in"},
		{regexp.MustCompile(`^fmt\.Print(f|ln)?$`), nil, "output goes to the command's Stdout"},
		{regexp.MustCompile(`^exec\.Command$`), nil, "a child ends with its context: use exec.CommandContext"},
		{regexp.MustCompile(`^log\.`), nil, "log with the *slog.Logger that is handed in"},
	}
}

func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok || x.Obj != nil {
				return true
			}
			name := x.Name + "." + sel.Sel.Name
			for _, c := range calls() {
				if c.re.MatchString(name) && !slices.Contains(c.allow, s.pkg()) {
					t.Errorf("%s: %s: %s", s.fset.Position(n.Pos()), name, c.reason)
				}
			}
			return true
		})
	}
}

// TestNoGlobals finds package-level variables and init functions. A variable that the
// linker or the flag package needs carries a nolint comment with its reason.
func TestNoGlobals(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s: init has effects nobody asked for", s.fset.Position(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					checkVars(t, s, d)
				}
			}
		}
	}
}

// constant are the initialisers of variables that nothing changes.
var constant = regexp.MustCompile(`^(errors\.New|regexp\.MustCompile|fmt\.Errorf)$`)

func checkVars(t *testing.T, s source, d *ast.GenDecl) {
	t.Helper()
	excused := s.pkg() == "internal/buildinfo" /* the linker can set nothing else */ || d.Doc != nil && strings.Contains(comments(d.Doc), "nolint:gochecknoglobals //")
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		ok := excused || v.Comment != nil && strings.Contains(comments(v.Comment), "nolint:gochecknoglobals //")
		for i, name := range v.Names {
			if ok || name.Name == "_" || i < len(v.Values) && isConstant(v.Values[i]) || isEmbed(d) {
				continue
			}
			t.Errorf("%s: package-level variable %s", s.fset.Position(name.Pos()), name.Name)
		}
	}
}

func comments(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

func isEmbed(d *ast.GenDecl) bool {
	return d.Doc != nil && strings.Contains(comments(d.Doc), "//go:embed ")
}

func isConstant(e ast.Expr) bool {
	c, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && constant.MatchString(x.Name+"."+sel.Sel.Name)
}

// TestSize keeps files and functions readable.
func TestSize(t *testing.T) {
	t.Parallel()
	const maxFile, maxFunc = 450, 75
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		if n := strings.Count(s.text, "\n"); n > maxFile {
			t.Errorf("%s has %d lines, at most %d: one idea a file", s.path, n, maxFile)
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			from, to := s.fset.Position(f.Pos()), s.fset.Position(f.End())
			if n := to.Line - from.Line + 1; n > maxFunc {
				t.Errorf("%s: %s has %d lines, at most %d", from, f.Name.Name, n, maxFunc)
			}
		}
	}
}

// TestUnfinished finds comments that say a thing is not done.
func TestUnfinished(t *testing.T) {
	t.Parallel()
	re := regexp.MustCompile(`\b(TODO|FIXME|XXX|not implemented|unimplemented)\b`)
	for _, s := range sources(t) {
		for _, g := range s.file.Comments {
			if m := re.FindString(g.Text()); m != "" {
				t.Errorf("%s: unfinished: %s", s.fset.Position(g.Pos()), m)
			}
		}
	}
}
