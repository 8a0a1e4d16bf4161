// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// Severity says how much a problem matters.
type Severity uint8

// Info is no problem; a Warning changes what a person may expect; with a Fault something
// does not work.
const (
	Info Severity = iota
	Warning
	Fault
)

func (s Severity) String() string {
	switch s {
	case Fault:
		return "error"
	case Warning:
		return "warning"
	}
	return "info"
}

// Problem is one finding of [Check].
type Problem struct {
	Severity Severity
	File     string
	Line     int      // 1-based, 0 = none
	Path     []string // key in the file, nil = the whole file
	Msg      string   // what was found and what was expected
	Fix      string   // what to do, "" = nothing
}

// CheckInput is what is checked.
type CheckInput struct {
	User, Admin File
	Env         File   // the home's .env
	Latest      int    // the version that this program migrates to; 0 = unknown. Of an older file no pin is named: a migration may unset it
	Lookup      Lookup // tells which variables there are; nil = unknown, and not checked
}

// Check looks for everything in a home's configuration that does not work, or works
// otherwise than it looks. It is pure and shows no value that could be a secret. Faults come
// first.
func Check(in CheckInput) []Problem {
	var p problems
	if in.User.Data == nil {
		p.add(Warning, in.User.Path, 0, nil, "is not there; the defaults count", "run hermes-appliance up to make one")
	}
	c, err := Parse(in.User, in.Admin)
	if err != nil {
		p.err(Fault, err)
		if c, err = Parse(File{Path: in.User.Path}, in.Admin); err != nil {
			return p
		}
	}
	for _, w := range c.warnings {
		p.err(Warning, w)
	}
	env := p.env(in.Env)
	p.types(c.With(in.Lookup))
	p.stamp(c)
	p.file(c, in.Lookup)
	p.misspelt(c)
	p.policy(c, env, in)
	slices.SortStableFunc(p, func(a, b Problem) int { return int(b.Severity) - int(a.Severity) })
	return p
}

type problems []Problem

func (p *problems) add(s Severity, file string, line int, path []string, msg, fix string) {
	*p = append(*p, Problem{s, file, line, path, msg, fix})
}

func (p *problems) err(s Severity, err error) {
	e := unparsable("", err)
	p.add(s, e.File, e.Line, e.Path, e.Msg, e.Fix)
}

func (p *problems) env(f File) *dotenv.File {
	if f.Data == nil {
		return nil
	}
	env, err := dotenv.Parse(f.Data)
	if err != nil {
		p.add(Fault, f.Path, 0, nil, err.Error(), "save it as UTF-8")
	}
	return env
}

// types checks the values of all known keys.
func (p *problems) types(v View) {
	for _, id := range slices.Sorted(maps.Keys(v.misfits)) {
		if e := v.misfits[id].misfit(split(id)); BridgeName(e.Path...) == "" {
			p.err(Fault, e)
		}
	}
	for _, path := range v.knownPaths() {
		if e := v.fault(path); e != nil && !v.inMisfit(path) {
			p.err(Fault, e)
		}
	}
}

// inMisfit reports whether a section on the way to a path is none: that is one fault, not as
// many as it has keys.
func (c *Config) inMisfit(path []string) bool {
	for i := 1; i < len(path); i++ {
		if id, _ := join(path[:i]); c.misfits[id].layer != nil {
			return true
		}
	}
	return false
}

func (p *problems) stamp(c *Config) {
	s := c.Stamp()
	switch l := c.layers[User]; {
	case l == nil || s.Valid:
	case !s.Present:
		p.add(Warning, l.file, 0, []string{stampKey}, "is not there; nobody knows which program wrote this file", "run hermes-appliance migrate")
	default:
		f, _ := l.doc.Find(stampKey)
		p.add(Fault, l.file, f.Line, []string{stampKey}, "is "+kindOf(f.Node)+"; expected a version, a whole number", "compare the file with a current template and set the version by hand")
	}
}

// file looks for keys that are given twice, and for variables that nobody knows.
func (p *problems) file(c *Config, lookup Lookup) {
	l := c.layers[User]
	if l == nil || l.doc.Root() == nil {
		return
	}
	var visit func(n *yamlspan.Node, path []string)
	visit = func(n *yamlspan.Node, path []string) {
		before := map[string]*yamlspan.Node{}
		for _, pair := range n.Pairs {
			here := append(slices.Clip(path), pair.Key.Value)
			if was := before[pair.Key.Value]; was != nil && !isMerge(pair.Key) {
				p.add(Warning, l.file, l.doc.Line(pair.Key.Start), here, fmt.Sprintf("is given before, on line %d; the last one counts", l.doc.Line(was.Start)), "keep one")
			}
			before[pair.Key.Value] = pair.Key
			visit(pair.Value, here)
		}
		for _, it := range n.Items {
			visit(it, path)
		}
		if s, ok := yamlspan.Resolve(n).(string); ok && lookup != nil {
			p.references(l, n, s, path, lookup)
		}
	}
	visit(l.doc.Root(), nil)
}

func (p *problems) references(l *layer, n *yamlspan.Node, s string, path []string, lookup Lookup) {
	for {
		name, _, to := reference(s)
		if name == "" {
			return
		}
		if _, ok := lookup(name); !ok {
			p.add(Warning, l.file, l.doc.Line(n.Start), path, "refers to ${"+name+"}, which nobody sets; the text stays as it is written", "set "+name+" in .env")
		}
		s = s[to:]
	}
}

// policy says which images are a choice, what the administrator decides, and what a backend
// lacks.
func (p *problems) policy(c *Config, env *dotenv.File, in CheckInput) {
	v := c.With(in.Lookup)
	for _, path := range c.knownPaths() {
		if b, ok := bridgedKey(path[len(path)-1]); ok && c.Stamp().Version >= in.Latest && BridgeName(path...) != "" && (b.kind == kindImage || b.key == "vercel_runtime") {
			p.pinned(c, path)
		}
		if l := c.layers[User]; l != nil && c.Origin(path...) == Admin {
			if f, ok := l.doc.Find(path...); ok {
				p.add(Info, l.file, f.Line, path, "has no effect: the administrator's config decides it", "")
			}
		}
	}
	t, err := NewTerminal(TerminalInput{Config: c, Env: env, Lookup: v.lookup})
	var e *Error
	if errors.As(err, &e) && e.File == envName {
		p.add(Fault, in.Env.Path, e.Line, e.Path, e.Msg, "mend or remove the line")
	}
	if err != nil {
		return
	}
	if t.Pin() == PinEnvFile {
		p.add(Info, in.Env.Path, 0, []string{imageEnv}, "pins the sandbox image", "")
	}
	if !slices.Contains(Backends(), t.Backend()) && c.deciding([]string{terminalKey, "backend"}) == Default {
		p.add(Fault, in.Env.Path, 0, []string{"TERMINAL_ENV"}, "expected one of "+strings.Join(Backends(), ", "), "")
	}
	if t.Backend() == "ssh" && t.Text("ssh_host") == "" {
		file, line := c.sectionAt([]string{terminalKey, "backend"})
		p.add(Fault, file, line, []string{terminalKey, "ssh_host"}, "is not set; the ssh backend does not know where to go", "set it")
	}
}

func (p *problems) pinned(c *Config, path []string) {
	l := c.layers[User]
	if l == nil || c.Origin(path...) != User || !c.Has(path...) {
		return
	}
	f, _ := l.doc.Find(path...)
	d, _ := c.layers[Default].doc.Find(path...)
	msg := "is a choice of yours: it stays when the default changes"
	if f.Node.Value == d.Node.Value {
		msg = "spells out the default, which makes it a choice of yours: it stays when the default changes"
	}
	if strings.TrimSpace(f.Node.Value) != "" {
		p.add(Info, l.file, f.Line, path, msg, "unset the key to follow the default")
	}
}
