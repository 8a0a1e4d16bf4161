// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/profile"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

type sandboxOptions struct {
	homeOptions
	json bool
}

func newSandbox(st *state) *cobra.Command {
	return group(st, "sandbox", "Look at a profile's Docker sandbox, and choose its image",
		"A profile whose terminal.backend is docker runs its commands in a container that is kept between runs. When the default\n"+
			"image changes, the container is kept until you say what you want: switch or keep.",
		"  hermes-appliance sandbox status",
		newSandboxStatus(st), newSandboxSwitch(st), newSandboxKeep(st))
}

func sandboxVerb(st *state, use, short, long string, run func(o *sandboxOptions, ctx context.Context, env Env) error, codes ...exitcode.Code) *cobra.Command {
	var o sandboxOptions
	cmd := &cobra.Command{
		Use: use + " [FLAGS]", Short: short, Long: long, DisableFlagsInUseLine: true,
		Example: "  " + Name + " sandbox " + use, Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return run(&o, ctx, env) })
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	exits(cmd, append([]exitcode.Code{exitcode.OK, exitcode.Error, exitcode.Usage}, codes...)...)
	return cmd
}

func newSandboxStatus(st *state) *cobra.Command {
	return sandboxVerb(st, "status", "Show a profile's containers, their images and whether a choice is open",
		"Shows which image a profile's sandbox is to be made from and who chose it, which containers there are, and whether you\nare asked to choose. It changes nothing.",
		(*sandboxOptions).status, exitcode.Unparseable, exitcode.Config)
}

func newSandboxSwitch(st *state) *cobra.Command {
	return sandboxVerb(st, "switch", "Move the sandbox to the image that is the default now",
		"Answers the open choice: writes the new default into terminal.docker_image. The container is replaced on its next use,\nafter the new image has arrived and proved to work; until then the old one stays. "+whatStays(),
		func(o *sandboxOptions, ctx context.Context, env Env) error { return o.answer(ctx, env, true) },
		exitcode.Newer, exitcode.Managed, exitcode.Locked, exitcode.Unparseable, exitcode.Config)
}

func newSandboxKeep(st *state) *cobra.Command {
	return sandboxVerb(st, "keep", "Stay with the image that the sandbox was made from",
		"Answers the open choice: writes the image of the present container into terminal.docker_image, so that you are not asked\nagain. hermes-appliance config unset terminal.docker_image opens the choice again.",
		func(o *sandboxOptions, ctx context.Context, env Env) error { return o.answer(ctx, env, false) },
		exitcode.Newer, exitcode.Managed, exitcode.Locked, exitcode.Unparseable, exitcode.Config)
}

// whatStays says what a switch costs.
func whatStays() string {
	return "/root and /workspace stay; what was\ninstalled with apt, pip or npm -g must be installed again, and virtual environments of another Python made anew."
}

// sandboxDoc is the result of sandbox status --json.
type sandboxDoc struct {
	Profile    string         `json:"profile"`
	Home       string         `json:"home"`
	Backend    string         `json:"backend"`
	Image      string         `json:"image,omitempty"`
	Pin        string         `json:"pin,omitempty"` // who chose the image; empty = nobody
	Engine     string         `json:"engine,omitempty"`
	Containers []containerDoc `json:"containers"`
	Switch     *switchDoc     `json:"switch,omitempty"` // the open choice
}

type containerDoc struct {
	Name  string `json:"name"`
	Task  string `json:"task"`
	Image string `json:"image"`
	State string `json:"state"`
	Own   bool   `json:"own"` // false: an older program's, which may be another home's
}

type switchDoc struct {
	Current string `json:"current"`
	Target  string `json:"target"`
}

// sandboxView is what the verbs work on.
type sandboxView struct {
	home   home.Home
	policy *config.Terminal
	spec   sandbox.Spec
	engine *sandbox.Engine // nil where commands do not run in docker
}

// view reads a profile's policy and connects to the engine. The caller closes the engine.
func (o *sandboxOptions) view(ctx context.Context, env Env) (v sandboxView, err error) {
	if v.home, err = o.locate(env); err != nil {
		return v, err
	}
	return viewSandbox(ctx, env, v.home)
}

func viewSandbox(ctx context.Context, env Env, h home.Home) (v sandboxView, err error) {
	v.home = h
	in := config.TerminalInput{UserHome: env.Getenv("HOME")}
	if v.policy, err = config.LoadTerminal(h, config.Options{AdminDir: home.AdminDir(env.Getenv)}, in); err != nil {
		return v, err
	}
	if v.policy.Backend() != "docker" {
		return v, nil
	}
	v.spec, err = sandbox.FromSettings(v.policy, sandbox.Place{
		Home: h.Dir, Key: string(profile.KeyOf(h.Dir)), Profile: h.Profile, Pinned: v.policy.Pin() != config.NoPin,
	})
	if err != nil {
		return v, err
	}
	v.engine, err = sandbox.Dial(ctx, sandbox.Options{Getenv: env.Getenv})
	return v, err
}

func (v sandboxView) close(ctx context.Context) error {
	if v.engine == nil {
		return nil
	}
	return v.engine.Close(context.WithoutCancel(ctx)) // nothing is torn down: it does not wait
}

func (o *sandboxOptions) status(ctx context.Context, env Env) (err error) {
	v, err := o.view(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close(ctx)) }()
	d := sandboxDoc{Profile: v.home.Profile, Home: v.home.Dir, Backend: v.policy.Backend(), Containers: []containerDoc{}}
	if v.engine != nil {
		d.Image, d.Pin, d.Engine = v.spec.Image, string(v.policy.Pin()), v.engine.Host()
		all, err := v.engine.List(ctx, v.spec)
		if err != nil {
			return err
		}
		for _, c := range all {
			d.Containers = append(d.Containers, containerDoc{c.Name, c.Task, c.Image, c.State, c.Own})
		}
		q, err := v.engine.Pending(ctx, v.spec)
		if err != nil {
			return err
		}
		if q != nil {
			d.Switch = &switchDoc{q.Current, q.Target}
		}
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "sandbox status", Result: d})
	}
	_, err = fmt.Fprint(env.Stdout, d.text())
	return err
}

// text is the document for people.
func (d sandboxDoc) text() string {
	var b strings.Builder
	if d.Engine == "" {
		fmt.Fprintf(&b, "%s: commands run in %s, there is no Docker sandbox\n", d.Profile, d.Backend)
		return b.String()
	}
	chosen := "the default"
	if d.Pin != "" {
		chosen = "chosen in " + d.Pin
	}
	fmt.Fprintf(&b, "%s\n  image      %s (%s)\n  engine     %s\n", d.Profile, d.Image, chosen, d.Engine)
	for _, c := range d.Containers {
		fmt.Fprintf(&b, "  container  %s  %s  %s  task %s\n", c.Name, c.State, c.Image, c.Task)
		if !c.Own {
			b.WriteString("             of an older program; it may be another home's, and is not used\n")
		}
	}
	if len(d.Containers) == 0 {
		b.WriteString("  container  none yet; the first command makes one\n")
	}
	if d.Switch != nil {
		fmt.Fprintf(&b, "  choice     the sandbox was made from %s; %s is the default now\n             %s sandbox switch, or %[3]s sandbox keep\n", d.Switch.Current, d.Switch.Target, Name)
	}
	return b.String()
}

// answer writes the answer to the open choice.
func (o *sandboxOptions) answer(ctx context.Context, env Env, yes bool) (err error) {
	v, err := o.view(ctx, env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.close(ctx)) }()
	command := "sandbox keep"
	if yes {
		command = "sandbox switch"
	}
	var q *sandbox.Switch
	if v.engine != nil {
		if q, err = v.engine.Pending(ctx, v.spec); err != nil {
			return err
		}
	}
	if q == nil {
		return o.nothing(env, v, command)
	}
	c, err := decide(ctx, env, v, *q, yes)
	if err != nil {
		return err
	}
	if o.json {
		doc := map[string]any{"changed": c.Changed, "image": q.Answer(yes), "notes": c.Notes}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: command, Result: doc})
	}
	_, err = fmt.Fprint(env.Stdout, decided(*q, yes))
	return err
}

// nothing says why there is no choice to make. That is no failure.
func (o *sandboxOptions) nothing(env Env, v sandboxView, command string) error {
	why := "no container was made from another image than " + v.spec.Image
	switch {
	case v.engine == nil:
		why = "commands run in " + v.policy.Backend() + ", not in docker"
	case v.spec.Pinned:
		why = fmt.Sprintf("%s was chosen already, in %s", v.spec.Image, v.policy.Pin())
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: command, Result: map[string]any{"changed": false, "notes": []string{why}}})
	}
	_, err := fmt.Fprintf(env.Stdout, "%s: nothing to choose: %s\n", v.home.Profile, why)
	return err
}

// decide writes the image into config.yaml; either answer is a pin and ends the question.
func decide(ctx context.Context, env Env, v sandboxView, q sandbox.Switch, yes bool) (config.Change, error) {
	newRecorder(env).record(ctx, v.home, generation.Found)
	e := config.Editor{
		Home: v.home, AdminDir: home.AdminDir(env.Getenv), Getenv: env.Getenv, Latest: migrate.Latest(), LockWait: lockWait,
	}
	c, err := e.SetText(ctx, []string{"terminal", "docker_image"}, q.Answer(yes))
	if err == nil && c.Changed {
		recordSwitch(ctx, env, v)
	}
	return c, err
}

func decided(q sandbox.Switch, yes bool) string {
	if yes {
		return fmt.Sprintf("terminal.docker_image is %s now. The sandbox is replaced on its next use; /root and /workspace stay.\n", q.Target)
	}
	return fmt.Sprintf("terminal.docker_image is %s now. The sandbox stays as it is.\n", q.Current)
}
