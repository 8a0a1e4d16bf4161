// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/control"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/container"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Environment variables of the gateway's image.
const (
	envImage         = "HERMES_APPLIANCE_IMAGE" // set in the image: this is a container of it
	envExecAsRoot    = "HERMES_DOCKER_EXEC_AS_ROOT"
	envSkipMigration = "HERMES_SKIP_CONFIG_MIGRATION"
)

// Arguments returns the arguments of a process as [Main] wants them. In a container of our image
// a command as root, which "docker exec" gives to a container that was started as root, becomes
// one of the gateway's user, so that it leaves no files that the gateway cannot read (H#10270).
func Arguments(argv []string, getenv func(string) string) []string {
	args := container.Arguments(argv)
	if os.Geteuid() != 0 || getenv(envImage) == "" || getenv(envExecAsRoot) == "1" || len(args) > 0 && args[0] == "container" {
		return args
	}
	return append([]string{"container"}, args...)
}

type containerOptions struct {
	homeOptions
	args    []string // as they were given
	command []string // what to run in place of the gateway
}

func newContainer(st *state) *cobra.Command {
	var o containerOptions
	cmd := &cobra.Command{
		Use: "container [COMMAND ...]", Short: "Be the entry point of a container",
		Long: "Starts the gateway of the home in a container: as root it first becomes PUID and PGID, else the owner of the home, for\n" +
			"good, and gives it the files that belong to Hermes; then it makes or migrates the home and runs the gateway. As process\n" +
			"1 it passes signals on and reaps. With a COMMAND, one of this program or another, it runs that as the same user.",
		DisableFlagsInUseLine: true, DisableFlagParsing: true,
		Example: "  docker run -v hermes:/opt/data IMAGE            the gateway\n" +
			"  docker run -v hermes:/opt/data IMAGE status     a command in its place",
		Args: cobra.ArbitraryArgs,
	}
	o.register(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
			return cmd.Help()
		}
		o.args, o.command = args, args
		if options, ok := container.Gateway(args); ok {
			o.command = nil
			if err := cmd.Flags().Parse(options); err != nil {
				return err
			}
			if left := cmd.Flags().Args(); len(left) > 0 {
				return fmt.Errorf("unknown argument %q", left[0])
			}
		} else if len(args) > 0 && !verb(cmd.Root(), args[0]) {
			path, err := exec.LookPath(args[0])
			if err != nil {
				return fmt.Errorf("%q is no command of %s and no program of the image", args[0], Name)
			}
			o.command = append([]string{path}, args[1:]...)
		}
		st.started = true
		return o.run(cmd.Context(), st.env)
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Managed, exitcode.BelowFloor, exitcode.Locked,
		exitcode.Unparseable, exitcode.Restart, exitcode.Config)
	cmd.AddCommand(newContainerHealth(st))
	return cmd
}

// verb reports whether a word is a command of this program.
func verb(root *cobra.Command, word string) bool {
	return strings.HasPrefix(word, "-") || slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == word })
}

// run goes through up to three processes: root, which ends in the user's own; process 1, which
// stays and waits; and the gateway.
func (o *containerOptions) run(ctx context.Context, env Env) error {
	root, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return err
	}
	facts, err := container.Look(root.Dir)
	if err != nil {
		return err
	}
	id, err := container.Choose(facts, env.Getenv)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	entry, environ := append([]string{self, "container"}, o.args...), childenv.TakeEnviron()
	log := slog.New(slog.NewTextHandler(env.Stderr, nil))
	switch {
	case id.UID != facts.UID:
		if o.command == nil {
			healed, err := container.Heal(root.Dir, id, facts)
			if err != nil {
				return err
			}
			log.Info("left root", "uid", id.UID, "gid", id.GID, "groups", id.Groups, "because", id.Why, "given", healed.Changed)
			if len(healed.Foreign) > 0 {
				log.Warn("files of the home belong to others and were left to them", "first", healed.Foreign)
			}
		}
		return container.Become(id, entry, environ)
	case o.command == nil && os.Getpid() == 1:
		code, err := container.Init(ctx, entry, environ, env.Restart)
		if err == nil && code != exitcode.OK {
			err = &codeError{code, ""} // the child has said why
		}
		return err
	case o.command == nil:
		return o.gateway(ctx, env, root)
	case verb(newRoot(&state{}), o.command[0]):
		// Who may stay root is not sent here again.
		return container.Exec(append([]string{self}, o.command...), append(environ, envExecAsRoot+"=1"))
	}
	return container.Exec(o.command, environ)
}

// gateway makes or migrates the home and serves it. A home that cannot be migrated is refused as
// a whole, before anything runs on it.
func (o *containerOptions) gateway(ctx context.Context, env Env, root home.Home) error {
	if err := container.Usable(root.Dir); err != nil {
		return err
	}
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	var more []string
	var confirm func(context.Context) error
	if env.Getenv(envSkipMigration) != "1" {
		if more, confirm, err = o.bring(ctx, env, h); err != nil {
			return err
		}
	}
	notices, err := current(h, env)
	if err != nil {
		return err
	}
	return serve(ctx, env, h, append(more, notices...), served(confirm, nil))
}

func newContainerHealth(st *state) *cobra.Command {
	var o homeOptions
	cmd := &cobra.Command{
		Use: "health [FLAGS]", Short: "Ask the gateway of this container whether it is well",
		Long:                  "Asks the running gateway over its socket. Exits 0 while it serves, 1 with the reason otherwise: an image's HEALTHCHECK.",
		DisableFlagsInUseLine: true, Example: "  docker exec CONTAINER hermes-appliance container health", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return health(ctx, env, &o) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	o.register(cmd)
	return cmd
}

// healthWait is less than what an image's HEALTHCHECK gives a check: the reason is to be kept.
const healthWait = 5 * time.Second

// health asks and prints one line, which engines keep.
func health(ctx context.Context, env Env, o *homeOptions) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, healthWait)
	defer cancel()
	temp := env.Getenv("TMPDIR")
	if temp == "" {
		temp = "/tmp"
	}
	var s gateway.Status
	if err := control.Call(ctx, h, temp, "status", &s); err != nil {
		return err
	}
	if s.Phase != gateway.Up && s.Phase != gateway.Degraded {
		return fmt.Errorf("the gateway is %s", s.Phase)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s, version %s, %s\n", s.Phase, s.Version, filepath.Base(h.Dir))
	return err
}
