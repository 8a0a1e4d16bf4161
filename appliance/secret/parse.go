// SPDX-License-Identifier: MIT

package secret

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ConfigError says what is wrong in the secrets section of config.yaml. It holds no value.
type ConfigError struct {
	Path []string
	Want string
}

func (e *ConfigError) Error() string {
	return strings.Join(e.Path, ".") + ": want " + e.Want
}

// Plugin is a source that a plugin's manifest declares. It is configured by the section
// secrets.<name>: enabled, override_existing, timeout_seconds, and env if it is mapped.
type Plugin struct {
	Name      string
	Shape     Shape
	Args      []string // the command; Args[0] is absolute or in PATH
	Protected []string // bootstrap names it may read, and nothing may supply
	Budget    time.Duration
}

// Parse makes a stack of the decoded secrets section of config.yaml (nil = none) and of the
// sources that plugins declare. Keys it does not know are somebody else's. The error is a
// [*ConfigError].
func Parse(secrets map[string]any, plugins []Plugin) (Stack, error) {
	var err *ConfigError
	top := section{secrets, []string{"secrets"}, &err}
	st := Stack{
		Order:    top.list("sources"),
		Preserve: top.list("preserve_existing"),
		NoAlias:  !top.flag("profile_alias", true),
	}
	st.Sources = append(st.Sources, top.bitwarden(), top.onePassword(&st), top.command())
	for _, p := range plugins {
		if slices.ContainsFunc(st.Sources, func(s Source) bool { return s.Spec().Name == p.Name }) {
			st.Warnings = append(st.Warnings, fmt.Sprintf("a plugin's source called %q is ignored: the name is taken", p.Name))
			continue
		}
		st.Sources = append(st.Sources, top.plugin(p, &st))
	}
	if err != nil {
		return Stack{}, err
	}
	return st, nil
}

// spec reads what every source has.
func (s section) spec(name string, override bool, timeout string, budget time.Duration) Spec {
	return Spec{
		Name:             name,
		Enabled:          s.flag("enabled", false),
		OverrideExisting: s.flag("override_existing", override),
		Budget:           s.seconds(timeout, budget),
	}
}

func (s section) bitwarden() Source {
	s = s.sub("bitwarden")
	return &Bitwarden{
		Is:       s.spec("bitwarden", true, "timeout_seconds", 0),
		Project:  s.text("project_id"),
		Server:   s.text("server_url"),
		TokenEnv: s.text("access_token_env"),
		Binary:   s.text("binary_path"),
	}
}

func (s section) onePassword(st *Stack) Source {
	s = s.sub("onepassword")
	o := &OnePassword{
		Is:       s.spec("onepassword", true, "timeout_seconds", 0),
		Account:  s.text("account"),
		TokenEnv: s.text("service_account_token_env"),
		Binary:   s.text("binary_path"),
	}
	o.Is.Refs = s.refs(st, func(ref string) bool { return strings.HasPrefix(ref, "op://") })
	return o
}

func (s section) command() Source {
	s = s.sub("command")
	c := &Command{Is: s.spec("command", false, "helper_timeout_seconds", helperBudget), Shell: s.text("command")}
	c.Is.Shape = Bulk
	return c
}

func (s section) plugin(p Plugin, st *Stack) Source {
	s = s.sub(p.Name)
	c := &Command{Is: s.spec(p.Name, false, "timeout_seconds", p.Budget), Args: p.Args}
	c.Is.Shape, c.Is.Protected, c.Is.Plugin = p.Shape, p.Protected, true
	if p.Shape == Mapped {
		c.Is.Refs = s.refs(st, func(ref string) bool { return ref != "" })
	}
	return c
}

// refs reads a mapping. What cannot be one is left out with a warning that does not show it.
func (s section) refs(st *Stack, good func(ref string) bool) map[string]string {
	out := map[string]string{}
	for name, v := range s.table("env") {
		ref, ok := v.(string)
		if ref = strings.TrimSpace(ref); ok && validName(name) && good(ref) {
			out[name] = ref
			continue
		}
		st.Warnings = append(st.Warnings, fmt.Sprintf("%s.env: the entry of %q is ignored: want NAME: reference", strings.Join(s.path, "."), name))
	}
	slices.Sort(st.Warnings)
	return out
}

// section is a part of the configuration; the first error is kept.
type section struct {
	m    map[string]any
	path []string
	err  **ConfigError
}

func (s section) fail(key, want string) {
	if *s.err == nil {
		*s.err = &ConfigError{append(slices.Clone(s.path), key), want}
	}
}

func (s section) sub(key string) section {
	return section{s.table(key), append(slices.Clone(s.path), key), s.err}
}

func (s section) table(key string) map[string]any {
	switch v := s.m[key].(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	}
	s.fail(key, "a section")
	return nil
}

func (s section) text(key string) string {
	switch v := s.m[key].(type) {
	case nil:
		return ""
	case string:
		return strings.TrimSpace(v)
	}
	s.fail(key, "a text")
	return ""
}

func (s section) flag(key string, def bool) bool {
	switch v := s.m[key].(type) {
	case nil:
		return def
	case bool:
		return v
	case string:
		if b, err := strconv.ParseBool(strings.TrimSpace(v)); err == nil {
			return b
		}
	}
	s.fail(key, "true or false")
	return def
}

// seconds reads a time; 0 or less means the default.
func (s section) seconds(key string, def time.Duration) time.Duration {
	var f float64
	switch v := s.m[key].(type) {
	case nil:
		return def
	case int:
		f = float64(v)
	case int64:
		f = float64(v)
	case float64:
		f = v
	default:
		s.fail(key, "a number of seconds")
		return def
	}
	if !(f > 0 && f < 24*3600) {
		return def
	}
	return time.Duration(f * float64(time.Second))
}

// list reads names; a single text is a list of one.
func (s section) list(key string) (out []string) {
	add := func(v any) {
		name, ok := v.(string)
		if !ok {
			s.fail(key, "a list of names")
		} else if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	switch v := s.m[key].(type) {
	case nil:
	case []any:
		for _, e := range v {
			add(e)
		}
	case []string:
		for _, e := range v {
			add(e)
		}
	default:
		add(v)
	}
	return out
}
