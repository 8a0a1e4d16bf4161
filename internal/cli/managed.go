// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// managedOptions are those of the verbs that the activation of a manager calls.
type managedOptions struct {
	homeOptions
	manager string
	json    bool
}

func (o *managedOptions) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.home, "home", "", "the home `DIR` (default $HERMES_HOME, else ~/.hermes)")
	cmd.Flags().StringVar(&o.manager, "manager", "", "who declares this: nixos, home-manager or another `NAME`; required")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Newer, exitcode.Managed, exitcode.Locked, exitcode.Unparseable, exitcode.Config)
}

// editor is an editor for the home that is declared; unlike a person's, it need not be a home yet.
func (o *managedOptions) editor(env Env) (config.Editor, error) {
	if o.manager == "" {
		return config.Editor{}, usagef("--manager NAME is missing: only the manager of a home writes what it declares; \"config set\" is for people")
	}
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return config.Editor{}, usagef("%w", err)
	}
	return config.Editor{Home: h, Getenv: env.Getenv, Latest: migrate.Latest(), LockWait: lockWait}, nil
}

type mergeOptions struct {
	managedOptions
	declared string
}

func newConfigMerge(st *state) *cobra.Command {
	var o mergeOptions
	cmd := &cobra.Command{
		Use: "merge --manager NAME --declared FILE [FLAGS]", Short: "Lay declared settings over a home's config, as NixOS does at activation",
		Long: "Lays the settings of a JSON file over config.yaml: declared keys win, lists and single values whole; every other key and\n" +
			"every comment stays, and a second merge writes nothing. A config that is not there is made. The home is marked as\n" +
			"managed by NAME, and from then on \"config set\" and \"migrate\" are refused there, unless with the same --manager.",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance config merge --manager nixos --declared settings.json --home /var/lib/hermes/.hermes",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	o.register(cmd)
	cmd.Flags().StringVar(&o.declared, "declared", "", "the JSON `FILE` of settings; required")
	return cmd
}

// readInput reads a file that must be there, even if it is empty.
func readInput(path string) (config.File, error) {
	data, st, err := atomicfile.Read(path)
	if err == nil && !st.Exists {
		err = &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}
	if err != nil {
		return config.File{}, err
	}
	return config.File{Path: path, Data: append([]byte{}, data...)}, nil
}

func readDeclared(path string) (config.Declared, error) {
	f, err := readInput(path)
	if err != nil {
		return config.Declared{}, err
	}
	return config.ParseDeclared(f)
}

// mergeDoc is the result of config merge --json.
type mergeDoc struct {
	File    string     `json:"file"`
	Created bool       `json:"created"`
	Wrote   [][]string `json:"wrote"` // keys
	Notes   []string   `json:"notes"`
}

func (o *mergeOptions) run(ctx context.Context, env Env) error {
	if o.declared == "" {
		return usagef("--declared FILE is missing")
	}
	e, err := o.editor(env)
	if err != nil {
		return err
	}
	d, err := readDeclared(o.declared)
	if err != nil {
		return err
	}
	m, err := e.Merge(ctx, o.manager, d)
	if err != nil {
		return err
	}
	if o.json {
		doc := mergeDoc{e.Home.Config(), m.Created, append([][]string{}, m.Wrote...), append([]string{}, m.Notes...)}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "config merge", Result: doc})
	}
	var b strings.Builder
	for _, path := range m.Wrote {
		fmt.Fprintf(&b, "%s: %s set as declared\n", e.Home.Config(), yamlspan.PathString(path))
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "%s: says what is declared, nothing was written\n", e.Home.Config())
	}
	for _, n := range m.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}

type assembleOptions struct {
	managedOptions
	environment string
	files       []string
}

func newEnvAssemble(st *state) *cobra.Command {
	var o assembleOptions
	cmd := &cobra.Command{
		Use: "assemble --manager NAME [--environment FILE] [--file FILE]... [FLAGS]", Short: "Write a home's .env from declared parts, as NixOS does at activation",
		Long: "Writes .env anew: the variables of a JSON object first, then each file as it is, the later line counting. A file that is\n" +
			"no longer named is gone from .env. One that cannot be read is an error, and .env stays. The same parts write nothing.\n" +
			"The first time, a .env that a person made is kept as .env.unmanaged.",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance env assemble --manager nixos --environment vars.json --file /run/secrets/hermes",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	o.register(cmd)
	cmd.Flags().StringVar(&o.environment, "environment", "", "a JSON `FILE` of variables that are no secrets")
	cmd.Flags().StringArrayVar(&o.files, "file", nil, "a `FILE` of lines NAME=value; a bare name is a credential of this service")
	return cmd
}

// assembleDoc is the result of env assemble --json.
type assembleDoc struct {
	File    string `json:"file"`
	Changed bool   `json:"changed"`
	Kept    string `json:"kept,omitempty"` // where the file of before is
}

func (o *assembleOptions) run(ctx context.Context, env Env) error {
	e, err := o.editor(env)
	if err != nil {
		return err
	}
	variables := map[string]string{}
	if o.environment != "" {
		f, err := readInput(o.environment)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(f.Data, &variables); err != nil {
			return usagef("--environment %s: expected one JSON object of texts: %w", o.environment, err)
		}
	}
	parts, err := o.parts(env)
	if err != nil {
		return err
	}
	a, err := e.AssembleEnv(ctx, o.manager, variables, parts)
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "env assemble", Result: assembleDoc{e.Home.Env(), a.Changed, a.Kept}})
	}
	text := e.Home.Env() + ": is what was declared, nothing was written\n"
	if a.Changed {
		text = e.Home.Env() + ": written\n"
	}
	if a.Kept != "" {
		text += "  the file of before is kept as " + a.Kept + "\n"
	}
	_, err = fmt.Fprint(env.Stdout, text)
	return err
}

// parts reads the files. A name without a directory is a file that systemd handed over.
func (o *assembleOptions) parts(env Env) ([]config.File, error) {
	var out []config.File
	for _, path := range o.files {
		if !strings.ContainsRune(path, filepath.Separator) {
			dir := env.Getenv("CREDENTIALS_DIRECTORY")
			if dir == "" {
				return nil, usagef("--file %s: expected a path; a bare name is a credential, and no service manager handed any over", path)
			}
			path = filepath.Join(dir, path)
		}
		f, err := readInput(path)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}
