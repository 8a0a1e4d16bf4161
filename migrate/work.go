// SPDX-License-Identifier: MIT

package migrate

import (
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// work is one run of the ladder in memory: the documents as edited so far, and beside them
// the model, the library's reading of the config with the same changes made to it. At the
// end the model must be what the library reads from the edited bytes.
type work struct {
	in    Input
	doc   *yamlspan.Doc
	model *yamlspan.Tree

	before *yamlspan.Tree // the library's reading of the original; nil = no content
	env    *dotenv.File   // nil = no file, or none to look at
	envErr error          // why the file cannot be read; nil = it can
	soul   []byte         // nil = no file

	touched [][]string // paths whose lines may differ
	step    Step
	plan    *Plan
}

// value is what a step finds at a path.
type value struct {
	ok   bool
	node *yamlspan.Node
	v    any // see yamlspan.Resolve
	line int // in the person's file
}

// get reads a path as a reader of the file would.
func (w *work) get(path ...string) value {
	f, ok := w.doc.Find(path...)
	if !ok {
		return value{}
	}
	return value{true, f.Node, yamlspan.Resolve(f.Node), w.origin(f.Key.Start)}
}

// text returns a string value.
func (v value) text() (string, bool) {
	s, ok := v.v.(string)
	return s, v.ok && ok
}

// word reports whether the value is a string equal to want but for case and outer blanks.
func (v value) word(want string) bool {
	s, ok := v.text()
	return ok && strings.EqualFold(strings.TrimSpace(s), want)
}

func (v value) isMap() bool { return v.ok && v.node.Kind == yamlspan.Mapping }

// isNull reports an explicit or empty null.
func (v value) isNull() bool { return v.ok && v.v == nil }

// keys returns the text of a mapping's keys in order, each once.
func (v value) keys() []string {
	if !v.isMap() {
		return nil
	}
	var out []string
	for _, p := range v.node.Pairs {
		if p.Key.Kind == yamlspan.Scalar && p.Key.Value != "<<" && !slices.Contains(out, p.Key.Value) {
			out = append(out, p.Key.Value)
		}
	}
	return out
}

// list returns the items of a list as text; an item that is no scalar is "", which no name
// equals. ok is false for anything but a list.
func (v value) list() (items []string, ok bool) {
	if !v.ok || v.node.Kind != yamlspan.Sequence {
		return nil, false
	}
	for _, it := range v.node.Items {
		text := ""
		if it.Kind == yamlspan.Scalar {
			text = it.Value
		}
		items = append(items, text)
	}
	return items, true
}

// shown is a value as the report prints it: the text for a scalar, a word for the rest.
func (v value) shown() string {
	if !v.ok {
		return ""
	}
	if v.node.Kind != yamlspan.Scalar {
		return "(" + v.node.Kind.String() + ")"
	}
	if v.isNull() {
		return "null"
	}
	return clip(v.node.Value)
}

// clip shortens long text for a report.
func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "..."
	}
	return s
}

// lifted is the text of a scalar as the file has it, so that it keeps its type and quotes
// where it goes. Text that would mean something else between brackets, where it may go, is
// quoted: ${VAR} ends a bracketed value at its brace.
func (w *work) lifted(v value) string {
	n := v.node
	switch v.v.(type) {
	case string:
	case nil:
		return "null"
	case *yamlspan.Node:
		return n.Tag + " " + yamlspan.Quote(n.Value) // a tag of somebody's own
	default:
		return n.Value
	}
	text := string(w.doc.Bytes()[n.Body:n.End])
	asIs := text != "" && n.Tag == "" && !strings.ContainsAny(text, "\r\n")
	switch n.Style {
	case yamlspan.Plain:
		asIs = asIs && !strings.ContainsAny(text, ",[]{}?#")
	case yamlspan.SingleQuoted:
		asIs = asIs && !strings.ContainsAny(n.Value, `'"\`)
	case yamlspan.Literal, yamlspan.Folded:
		asIs = false
	}
	if asIs {
		return text
	}
	return yamlspan.Quote(n.Value)
}

// sectionFree reports whether a key can be put below path: every part of it that exists is
// a mapping or null. Otherwise it tells the person what was left out.
func (w *work) sectionFree(path []string, what string) bool {
	for i := range path {
		v := w.get(path[:i+1]...)
		if !v.ok || v.isNull() {
			return true
		}
		if !v.isMap() {
			w.advise("config.yaml line %d: %s is a %s, not a section of keys; %s was not written", v.line,
				yamlspan.PathString(path[:i+1]), v.node.Kind, what)
			return false
		}
	}
	return true
}

// remove deletes the key at path.
func (w *work) remove(reason string, path ...string) error {
	old := w.get(path...)
	doc, err := w.doc.Delete(path)
	if err != nil {
		return err
	}
	if err := w.model.Remove(path...); err != nil {
		return err
	}
	w.done(doc, Change{Action: Removed, Path: path, Old: old.shown(), Line: old.line, Reason: reason})
	return nil
}

// set gives the key at path another scalar, written as text.
func (w *work) set(reason, text string, path ...string) error {
	old := w.get(path...)
	doc, err := w.doc.SetScalar(path, text)
	if err != nil {
		return err
	}
	tree, err := yamlspan.ScalarTree(text)
	if err != nil {
		return err
	}
	w.model.Put(tree, path...)
	w.done(doc, Change{Action: Changed, Path: path, Old: old.shown(), New: bare(text), Line: old.line, Reason: reason})
	return nil
}

// bare shows a scalar without its quotes, except the empty text.
func bare(text string) string {
	if s := strings.Trim(text, `"'`); s != "" {
		return clip(s)
	}
	return text
}

// add inserts a key that is not there.
func (w *work) add(reason, shown string, v yamlspan.Value, path ...string) error {
	doc, err := w.doc.Insert(path, v)
	if err != nil {
		return err
	}
	tree, err := v.Tree()
	if err != nil {
		return err
	}
	if w.model == nil {
		w.model = &yamlspan.Tree{Kind: yamlspan.Mapping}
	}
	w.model.Put(tree, path...)
	w.done(doc, Change{Action: Added, Path: path, New: clip(shown), Reason: reason})
	return nil
}

// put adds the key, or sets it where it is.
func (w *work) put(reason, text string, path ...string) error {
	if w.get(path...).ok {
		return w.set(reason, text, path...)
	}
	return w.add(reason, bare(text), yamlspan.Value{Scalar: text}, path...)
}

// dropItems removes the items of a list that match.
func (w *work) dropItems(reason string, match func(string) bool, path ...string) error {
	old := w.get(path...)
	items, _ := old.list()
	if !slices.ContainsFunc(items, match) {
		return nil // a list behind an alias is no obstacle while nothing of it goes
	}
	doc, n, err := w.doc.RemoveItems(path, match)
	if err != nil || n == 0 {
		return err
	}
	list := w.model.At(path...)
	list.Values = slices.DeleteFunc(list.Values, func(t *yamlspan.Tree) bool {
		return t.Kind == yamlspan.Scalar && match(t.Text())
	})
	gone := slices.DeleteFunc(items, func(s string) bool { return !match(s) })
	w.done(doc, Change{Action: Removed, Path: path, Old: strings.Join(gone, ", "), Line: old.line, Reason: reason})
	return nil
}

// addItem puts a name behind the last item of a list.
func (w *work) addItem(reason, name string, path ...string) error {
	old := w.get(path...)
	doc, err := w.doc.AppendItem(path, yamlspan.Quote(name))
	if err != nil {
		return err
	}
	list := w.model.At(path...)
	item, err := yamlspan.ScalarTree(yamlspan.Quote(name))
	if err != nil {
		return err
	}
	list.Values = append(list.Values, item)
	w.done(doc, Change{Action: Added, Path: path, New: name, Line: old.line, Reason: reason})
	return nil
}

// done records one change of config.yaml.
func (w *work) done(doc *yamlspan.Doc, c Change) {
	w.doc = doc
	w.touched = append(w.touched, c.Path)
	c.File = FileConfig
	w.record(c)
}

func (w *work) record(c Change) {
	c.Step, c.ID = w.step.To, w.step.ID
	w.plan.Changes = append(w.plan.Changes, c)
}

// keep records a value that a step looked at and left.
func (w *work) keep(v value, why string, path ...string) {
	w.plan.Kept = append(w.plan.Kept, Pin{
		Step: w.step.To, ID: w.step.ID, File: FileConfig, Path: path, Value: v.shown(), Line: v.line, Why: why,
	})
}

// staleDefault deletes (text == "") or rewrites a number while it equals the old default,
// and reports every other number as kept.
func (w *work) staleDefault(reason string, old int64, text string, path ...string) error {
	v := w.get(path...)
	switch {
	case !v.ok:
		return nil
	case !yamlspan.IsInt(v.v, old):
		w.keep(v, "your own value", path...)
		return nil
	case text == "":
		return w.remove(reason, path...)
	}
	return w.set(reason, text, path...)
}
