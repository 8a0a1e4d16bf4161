// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type profileOptions struct {
	homeOptions
	json bool
	name string
}

func newProfile(st *state) *cobra.Command {
	return group(st, "profile", "List a home's profiles and look at one",
		"A profile is a complete second home below profiles/. Deleted ones leave a tombstone and are not listed.",
		"  hermes-appliance profile list",
		newProfileList(st), newProfileShow(st))
}

func newProfileList(st *state) *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use: "list [FLAGS]", Short: "List the default home and every live profile", DisableFlagsInUseLine: true,
		Example: "  hermes-appliance profile list --json", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.list(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	cmd.Flags().StringVar(&o.home, "home", "", "the home `DIR` (default $HERMES_HOME, else ~/.hermes)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func newProfileShow(st *state) *cobra.Command {
	var o profileOptions
	cmd := &cobra.Command{
		Use: "show NAME [FLAGS]", Short: "Show one profile: its files, its version, where its commands run", DisableFlagsInUseLine: true,
		Example: "  hermes-appliance profile show work", Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st.started = true
		o.name = args[0]
		return o.show(cmd.Context(), st.env)
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	cmd.Flags().StringVar(&o.home, "home", "", "the home `DIR` (default $HERMES_HOME, else ~/.hermes)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// profileDoc describes one profile.
type profileDoc struct {
	Name     string   `json:"name"`
	Home     string   `json:"home"`
	Version  int      `json:"config_version,omitempty"` // 0 = none
	Backend  string   `json:"backend,omitempty"`        // where its commands run
	Image    string   `json:"docker_image,omitempty"`
	Pin      string   `json:"pin,omitempty"` // who chose the image; empty = nobody
	Files    []string `json:"files"`
	Problems []string `json:"problems"`
}

func (o *profileOptions) list(_ context.Context, env Env) error {
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return usagef("%w", err)
	}
	profiles, err := h.Profiles()
	if err != nil {
		return err
	}
	docs := []profileDoc{}
	var b strings.Builder
	for _, p := range append([]home.Home{h.Root()}, profiles...) {
		d := describeProfile(p, env)
		docs = append(docs, d)
		fmt.Fprintf(&b, "%-20s %-10s %s\n", d.Name, d.Backend, d.Home)
		for _, problem := range d.Problems {
			fmt.Fprintf(&b, "  %s\n", problem)
		}
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "profile list", Result: map[string]any{"profiles": docs}})
	}
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}

func (o *profileOptions) show(_ context.Context, env Env) error {
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return usagef("%w", err)
	}
	if h, err = h.NamedProfile(o.name); err != nil {
		return err
	}
	d := describeProfile(h, env)
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "profile show", Result: d})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  home      %s\n", d.Name, d.Home)
	if d.Version > 0 {
		fmt.Fprintf(&b, "  version   %d\n", d.Version)
	}
	if d.Backend != "" {
		fmt.Fprintf(&b, "  commands  %s\n", d.Backend)
	}
	if d.Image != "" {
		chosen := "the default"
		if d.Pin != "" {
			chosen = "pinned in " + d.Pin
		}
		fmt.Fprintf(&b, "  image     %s (%s)\n", d.Image, chosen)
	}
	fmt.Fprintf(&b, "  files     %s\n", strings.Join(d.Files, ", "))
	for _, p := range d.Problems {
		fmt.Fprintf(&b, "  problem   %s\n", p)
	}
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}

// describeProfile looks at a profile; what cannot be read is among its problems.
func describeProfile(h home.Home, env Env) profileDoc {
	d := profileDoc{Name: h.Profile, Home: h.Dir, Files: []string{}, Problems: []string{}}
	for _, f := range []string{"config.yaml", ".env", "SOUL.md", "state.db", "auth.json"} {
		if _, err := os.Lstat(filepath.Join(h.Dir, f)); err == nil {
			d.Files = append(d.Files, f)
		}
	}
	o := config.Options{AdminDir: home.AdminDir(env.Getenv)}
	c, err := config.Load(h, o)
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
		return d
	}
	d.Version = c.Stamp().Version
	t, err := config.LoadTerminal(h, o, config.TerminalInput{UserHome: env.Getenv("HOME")})
	if err != nil {
		d.Problems = append(d.Problems, err.Error())
		return d
	}
	d.Backend = t.Backend()
	if d.Backend == "docker" {
		d.Image, d.Pin = t.Text("docker_image"), string(t.Pin())
	}
	return d
}
