// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// convert migrates one file into another: a pure function of the old one. The report goes
// to standard error where the result goes to standard output.
func (o *migrateOptions) convert(env Env) error {
	data, st, err := atomicfile.Read(o.oldConfig)
	if err != nil {
		return err
	}
	if !st.Exists {
		return fmt.Errorf("%s: no such file", o.oldConfig)
	}
	in := migrate.Input{Config: data, ConfigOnly: true, Name: o.oldConfig, Getenv: env.Getenv}
	if in.Config == nil {
		in.Config = []byte{}
	}
	p, err := migrate.Released().Plan(in, o.options())
	if err != nil {
		return err
	}
	out := env.Stdout
	if o.newConfig == "-" {
		out = env.Stderr
		if _, err := env.Stdout.Write(p.Config(in)); err != nil {
			return err
		}
	} else if err := o.writeNew(p.Config(in)); err != nil {
		return err
	}
	if o.json {
		return printJSON(out, envelope{Schema: schemaVersion, Command: "migrate", Result: map[string]any{"plan": p}})
	}
	if o.quiet && !p.Pending() {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", o.oldConfig, o.headline(outcome{Result: migrate.Result{Plan: p, Applied: true}}))
	writePlan(&b, p)
	_, err = io.WriteString(out, b.String())
	return err
}

// writeNew writes a file that must not exist yet: only --home changes a file in place.
func (o *migrateOptions) writeNew(data []byte) error {
	_, st, err := atomicfile.Read(o.newConfig)
	if err != nil {
		return err
	}
	if st.Exists {
		return &codeError{exitcode.Error, o.newConfig + ": the file exists; name a new one, or use --home to migrate in place"}
	}
	return atomicfile.Writer{}.Write(o.newConfig, data, atomicfile.Options{})
}
