// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

type configOptions struct {
	homeOptions
	json bool
	key  string
	val  string
}

func newConfig(st *state) *cobra.Command {
	return group(st, "config", "Read, change and check a home's configuration",
		"Reads config.yaml with the defaults under it and the administrator's file over it, and changes single keys of it.\nEvery other byte of the file stays.",
		"  hermes-appliance config get terminal.backend",
		newConfigGet(st), newConfigSet(st), newConfigUnset(st), newConfigCheck(st), newConfigKeys(st), newConfigMerge(st))
}

// group makes a command that only has others below it.
func group(st *state, use, short, long, example string, verbs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, DisableFlagsInUseLine: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			st.started = true
			return cmd.Help()
		},
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	cmd.AddCommand(verbs...)
	return cmd
}

// configVerb makes a verb of config that takes n arguments.
func configVerb(st *state, use, short, long, example string, n int, run func(o *configOptions, ctx context.Context, env Env) error) *cobra.Command {
	var o configOptions
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, DisableFlagsInUseLine: true, Args: cobra.ExactArgs(n)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st.started = true
		if n > 0 {
			o.key = args[0]
		}
		if n > 1 {
			o.val = args[1]
		}
		return run(&o, cmd.Context(), st.env)
	}
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Newer, exitcode.Managed, exitcode.Locked, exitcode.Unparseable, exitcode.Config)
	return cmd
}

func newConfigGet(st *state) *cobra.Command {
	return configVerb(st, "get KEY [FLAGS]", "Print what counts for a key, and where that is written",
		"Prints the value that counts for a key: the administrator's, else yours, else the default. Keys are joined by dots; a\npart with dots in it stands in quotes. What could be a secret is shown as ***.",
		"  hermes-appliance config get 'providers.\"my.server\".api'", 1, (*configOptions).get)
}

func newConfigSet(st *state) *cobra.Command {
	return configVerb(st, "set KEY VALUE [FLAGS]", "Write one key, leaving every other byte as it is",
		"Writes one key of config.yaml. VALUE is a YAML value; quotes of its own make a number a text. Setting\nterminal.docker_image pins that image: a sandbox made from another one is replaced.",
		"  hermes-appliance config set terminal.backend docker", 2, (*configOptions).set)
}

func newConfigUnset(st *state) *cobra.Command {
	return configVerb(st, "unset KEY [FLAGS]", "Remove one key, so that its default counts again",
		"Removes one key of config.yaml with all below it. Unsetting terminal.docker_image opens the question again which image\na sandbox is made from.",
		"  hermes-appliance config unset terminal.docker_image", 1, (*configOptions).unset)
}

func newConfigCheck(st *state) *cobra.Command {
	return configVerb(st, "check [FLAGS]", "Find what does not work in a home's configuration",
		"Looks for keys of the wrong kind, values that do not exist, files that cannot be read, and settings that another place\ndecides. Exits 78 if something does not work.",
		"  hermes-appliance config check", 0, (*configOptions).check)
}

// entryDoc is the result of config get --json.
type entryDoc struct {
	Path   []string `json:"path"`
	Value  any      `json:"value"`
	Origin string   `json:"origin"` // default, user, admin
	File   string   `json:"file,omitempty"`
	Line   int      `json:"line,omitempty"`
}

func (o *configOptions) get(_ context.Context, env Env) error {
	h, path, err := o.target(env)
	if err != nil {
		return err
	}
	c, err := config.Load(h, config.Options{AdminDir: home.AdminDir(env.Getenv)})
	if err != nil {
		return err
	}
	e, err := c.Get(path...)
	if err != nil {
		return err
	}
	shown := redact.Setting(path[len(path)-1], e.Value)
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "config get", Result: entryDoc{path, shown, e.Origin.String(), e.File, e.Line}})
	}
	where := "default"
	if e.File != "" {
		where = fmt.Sprintf("%s, line %d", e.File, e.Line)
	}
	text, err := plain(shown)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\n", text)
	if err == nil && e.Origin != config.User {
		_, err = fmt.Fprintf(env.Stderr, "(%s: %s)\n", e.Origin, where)
	}
	return err
}

// target returns the home and the parsed key.
func (o *configOptions) target(env Env) (home.Home, []string, error) {
	h, err := o.locate(env)
	if err != nil {
		return h, nil, err
	}
	path, err := config.ParsePath(o.key)
	return h, path, err
}

func (o *configOptions) editor(h home.Home, env Env) config.Editor {
	return config.Editor{Home: h, AdminDir: home.AdminDir(env.Getenv), Getenv: env.Getenv, Latest: migrate.Latest(), LockWait: lockWait}
}

// sample is a text that is hidden where a secret would be.
const sample = "0123456789abcdef0123456789abcdef"

func (o *configOptions) set(ctx context.Context, env Env) error {
	h, path, err := o.target(env)
	if err != nil {
		return err
	}
	if last := path[len(path)-1]; secret.Placeholder(strings.Trim(o.val, `'"`)) && o.val != "" && redact.Setting(last, sample) != sample {
		return usagef("%s: that is what a hidden value looks like, no secret; nothing was written", yamlspan.PathString(path))
	}
	c, err := o.edit(ctx, env, h, path, func(e config.Editor) (config.Change, error) { return e.Set(ctx, path, o.val) })
	if err != nil {
		return err
	}
	return o.changed(env, h, c, "set")
}

func (o *configOptions) unset(ctx context.Context, env Env) error {
	h, path, err := o.target(env)
	if err != nil {
		return err
	}
	c, err := o.edit(ctx, env, h, path, func(e config.Editor) (config.Change, error) { return e.Unset(ctx, path) })
	if err != nil {
		return err
	}
	return o.changed(env, h, c, "unset")
}

// edit changes a key. One that says where commands run is the same answer as sandbox switch or
// keep, and a generation as that is.
func (o *configOptions) edit(ctx context.Context, env Env, h home.Home, path []string, change func(config.Editor) (config.Change, error)) (config.Change, error) {
	where := len(path) == 2 && path[0] == "terminal" && (path[1] == "docker_image" || path[1] == "backend")
	rec := newRecorder(env)
	if _, err := os.Stat(h.Config()); where && err == nil {
		rec.record(ctx, h, generation.Found)
	}
	c, err := change(o.editor(h, env))
	if err == nil && c.Changed && where {
		rec.record(ctx, h, generation.SandboxSwitch)
	}
	return c, err
}

// changeDoc is the result of config set --json and unset --json.
type changeDoc struct {
	Path    []string `json:"path"`
	File    string   `json:"file"`
	Changed bool     `json:"changed"`
	Notes   []string `json:"notes"`
}

func (o *configOptions) changed(env Env, h home.Home, c config.Change, verb string) error {
	if o.json {
		notes := append([]string{}, c.Notes...)
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "config " + verb, Result: changeDoc{c.Path, h.Config(), c.Changed, notes}})
	}
	var b strings.Builder
	if c.Changed {
		fmt.Fprintf(&b, "%s: %s %s\n", h.Config(), yamlspan.PathString(c.Path), verb)
	} else {
		fmt.Fprintf(&b, "%s: %s is so already, nothing was written\n", h.Config(), yamlspan.PathString(c.Path))
	}
	for _, n := range c.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	_, err := fmt.Fprint(env.Stdout, b.String())
	return err
}

// problemDoc is one finding of config check --json.
type problemDoc struct {
	Severity string   `json:"severity"` // fault, warning, info
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`
	Path     []string `json:"path,omitempty"`
	Message  string   `json:"message"`
	Fix      string   `json:"fix,omitempty"`
}

func (o *configOptions) check(_ context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	in, err := checkInput(h, env)
	if err != nil {
		return err
	}
	docs := []problemDoc{}
	faults := 0
	var b strings.Builder
	for _, p := range config.Check(in) {
		docs = append(docs, problemDoc{p.Severity.String(), p.File, p.Line, p.Path, p.Msg, p.Fix})
		if p.Severity == config.Fault {
			faults++
		}
		fmt.Fprintf(&b, "%s: %s", p.Severity, p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ", line %d", p.Line)
		}
		if len(p.Path) > 0 {
			b.WriteString(", " + yamlspan.PathString(p.Path))
		}
		b.WriteString(": " + p.Msg)
		if p.Fix != "" {
			b.WriteString("; " + p.Fix)
		}
		b.WriteByte('\n')
	}
	if len(docs) == 0 {
		fmt.Fprintf(&b, "%s: nothing to complain about\n", h.Config())
	}
	var verdict error
	if faults > 0 {
		verdict = &codeError{exitcode.Config, fmt.Sprintf("%s: %d settings do not work, see above", h.Dir, faults)}
	}
	if o.json {
		err = printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "config check", Exit: int(exitcode.Of(verdict)), Result: map[string]any{"problems": docs}})
	} else {
		_, err = fmt.Fprint(env.Stdout, b.String())
	}
	return errors.Join(err, verdict)
}

// checkInput reads the files that are checked.
func checkInput(h home.Home, env Env) (config.CheckInput, error) {
	in := config.CheckInput{Latest: migrate.Latest()}
	read := func(path string, into *config.File) error {
		data, st, err := atomicfile.Read(path)
		if err != nil {
			return err
		}
		into.Path = path
		if st.Exists {
			into.Data = append([]byte{}, data...)
		}
		return nil
	}
	err := errors.Join(read(h.Config(), &in.User), read(h.Env(), &in.Env))
	if dir := home.AdminDir(env.Getenv); dir != "" && err == nil {
		err = read(home.Home{Dir: dir}.Config(), &in.Admin)
	}
	return in, err
}

// plain writes a value for people: text bare, lists and sections as JSON.
func plain(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	var b strings.Builder
	err := printJSON(&b, v)
	return strings.TrimSpace(b.String()), err
}
