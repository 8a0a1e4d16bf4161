// SPDX-License-Identifier: MIT

package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// composer puts the sources of a policy over one another.
type composer struct {
	view View
	vars map[string]setting
	seen evidence
}

// compose makes a policy in which directories are as they are written. The error is a
// [*Refusal].
func compose(in TerminalInput) (*Terminal, error) {
	c := composer{view: in.Config.With(in.Lookup), vars: map[string]setting{}}
	steps := []func() error{
		func() error { return c.config(Default) },
		func() (err error) { c.seen.envFile, err = c.file(in.Env, envName); return err },
		func() (err error) { c.seen.process, err = c.environment(in.Launch); return err },
		func() error { return c.config(User) },
		func() (err error) { c.seen.adminEnv, err = c.file(in.AdminEnv, adminEnvName); return err },
		func() error { return c.config(Admin) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, &Refusal{err}
		}
	}
	t := &Terminal{vars: c.vars, pin: pin(c.seen)}
	t.vars[Pinned] = setting{value: t.pin.Flag(), from: t.Source(imageEnv)}
	return t, nil
}

// file applies the variables of a .env file and reports whether it has a Docker image. Of
// several assignments of a name the last one counts, also if it is blank.
func (c *composer) file(f *dotenv.File, name string) (hasImage bool, err error) {
	if f == nil {
		return false, nil
	}
	last := map[string]dotenv.Assignment{}
	for _, a := range f.All() {
		last[a.Key] = a
	}
	for _, a := range slices.SortedFunc(maps.Values(last), func(a, b dotenv.Assignment) int { return a.Line - b.Line }) {
		set, err := c.variable(a.Key, setting{a.Value, name, a.Line})
		if err != nil {
			return false, err
		}
		hasImage = hasImage || set && a.Key == imageEnv
	}
	return hasImage, nil
}

// environment applies the variables of the launch process. An image of which its launcher
// says that nobody chose it does not take the place of one that the profile's .env chose.
func (c *composer) environment(env map[string]string) (hasImage bool, err error) {
	c.seen.inherited = strings.TrimSpace(env[Pinned])
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if name == imageEnv && c.seen.inherited == NoPin.Flag() && c.seen.envFile {
			continue
		}
		set, err := c.variable(name, setting{value: env[name], from: inProcess})
		if err != nil {
			return false, err
		}
		hasImage = hasImage || set && name == imageEnv
	}
	return hasImage, nil
}

// variable applies one variable that came as text, and reports whether it is one and has a
// value. The verdict on a pin is never taken from anywhere: it is made.
func (c *composer) variable(name string, s setting) (set bool, err error) {
	if !strings.HasPrefix(name, prefix) || name == Pinned {
		return false, nil
	}
	for _, b := range bridge() {
		if b.env() != name {
			continue
		}
		value, ok, valid := b.kind.check(s.value)
		if !valid {
			return false, &Error{Kind: ErrType, File: s.from, Line: s.line, Path: []string{name}, Msg: "expected " + b.kind.String()}
		}
		if !ok {
			return false, nil
		}
		s.value = value
	}
	c.vars[name] = s
	return true, nil
}

// config applies the keys that one of the config files decides.
func (c *composer) config(from Origin) error {
	for _, b := range bridge() {
		path := []string{terminalKey, b.key}
		if from == Default {
			// Also what a higher file hides: that may turn out to be null or blank.
			f, _ := c.view.layers[Default].doc.Find(path...)
			c.vars[b.env()] = setting{value: defaultText(b, f.Node), from: defaultsFile}
			continue
		}
		if o := c.view.deciding(path); o != from {
			continue
		}
		value, ok, err := c.view.bridgeText(b, path)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		file, line := c.view.sectionAt(path)
		c.vars[b.env()] = setting{value, file, line}
		if b.env() == imageEnv {
			c.seen.config = from
		}
	}
	if from == Default && isPlaceholder(c.vars[dirEnv].value) {
		delete(c.vars, dirEnv)
	}
	return nil
}

// deciding is [Config.Origin], also for what stands where a section belongs.
func (c *Config) deciding(path []string) Origin {
	for i := range path {
		if id, _ := join(path[:i+1]); c.misfits[id].layer != nil {
			return User
		}
	}
	return c.Origin(path...)
}

func defaultText(b bridged, n *yamlspan.Node) string {
	switch b.kind {
	case kindList:
		return "[]"
	case kindTable:
		return "{}"
	}
	return n.Value
}

// bridgeText returns the text that carries a key's value; ok is false where it says nothing:
// it is null, or blank where blank is no value.
func (v View) bridgeText(b bridged, path []string) (value string, ok bool, err error) {
	var x any
	switch b.kind {
	case kindList, kindTable:
		if x, ok, err = v.collection(b.kind, path); err != nil || !ok {
			return "", false, err
		}
		if s, isText := x.(string); isText {
			return s, true, nil
		}
		return toJSON(x), true, nil
	}
	l, ok, err := v.find(path, b.kind.String())
	if err != nil || !ok {
		return "", false, err
	}
	switch b.kind {
	case kindBool, kindNumber, kindWhole:
		switch x := v.typed(l).(type) {
		case nil:
			return "", false, nil
		case bool:
			value = strconv.FormatBool(x)
		case int64:
			value = strconv.FormatInt(x, 10)
		case float64:
			value = strconv.FormatFloat(x, 'f', -1, 64)
		}
		if value == "" {
			return "", false, l.wrong(path, b.kind.String())
		}
	default:
		if value, err = v.text(l, l.node, path); err != nil {
			return "", false, err
		}
	}
	value, ok, valid := b.kind.check(value)
	if !valid {
		return "", false, l.wrong(path, b.kind.String())
	}
	return value, ok, nil
}

// collection reads a list of texts, or a section of names and texts. Either may also be
// written as JSON in a text, as it stands in a variable.
func (v View) collection(k kind, path []string) (x any, ok bool, err error) {
	id, _ := join(path)
	l, _, _ := v.at(path)
	if m, misfit := v.misfits[id]; misfit {
		l = m
	}
	if s, isText := l.value().(string); isText {
		value, ok, valid := k.check(v.lookup.expand(s))
		if !valid {
			return nil, false, l.wrong(path, k.String())
		}
		return value, ok, nil
	}
	if k == kindList {
		out, err := v.Strings(path...)
		return out, out != nil, err
	}
	m, err := v.Map(path...)
	if err != nil || m == nil {
		return nil, false, err
	}
	out := make(map[string]string, len(m))
	for name := range m {
		if out[name], err = v.String(append(slices.Clip(path), name)...); err != nil {
			return nil, false, err
		}
	}
	return out, true, nil
}
