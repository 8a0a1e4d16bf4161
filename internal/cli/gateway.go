// SPDX-License-Identifier: MIT

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
	"github.com/hermes-appliance/hermes-appliance/service"
)

func newGateway(st *state) *cobra.Command {
	return group(st, "gateway", "Run the gateway",
		"The gateway serves the profiles of a home: it answers through the API, runs tools, and remembers.",
		"  hermes-appliance gateway run", newGatewayRun(st), newGatewayMigrate(st))
}

type runOptions struct {
	homeOptions
	// external is what launchd's definition passes on; it changes nothing here.
	external bool
	replace  bool
}

func newGatewayRun(st *state) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use: "run [FLAGS]", Short: "Run the gateway of a home in the foreground, as a service does",
		Long: "Runs the gateway until it is told to stop. It migrates nothing: a home whose config is older than this program is\n" +
			"refused with exit 78, and \"migrate\" or \"up\" brings it up to date. SIGTERM stops it, SIGUSR1 lets running turns\n" +
			"finish and exits 75, which asks the service manager to start it again.",
		DisableFlagsInUseLine: true,
		Example:               "  hermes-appliance gateway run",
		Args:                  cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Locked, exitcode.Restart, exitcode.Config)
	o.register(cmd)
	cmd.Flags().BoolVar(&o.replace, "replace", false, "end the gateway that runs on this home first; no service manager but s6 may start it so")
	cmd.Flags().BoolVar(&o.external, "external-supervisor", false, "somebody else starts it again")
	return cmd
}

// configError is a home that a gateway cannot run on: starting again will not help.
type configError struct{ err error }

func (e *configError) Error() string           { return e.err.Error() }
func (e *configError) Unwrap() error           { return e.err }
func (e *configError) ExitCode() exitcode.Code { return exitcode.Config }

// run runs the gateway. Under a manager that starts it again at once, one that
// cannot start takes its time to fail; from the claim on the ledger of starts does that.
func (o *runOptions) run(ctx context.Context, env Env) error {
	began := env.Now()
	err := o.serve(ctx, env)
	code := exitcode.Of(err)
	if env.Getenv("HERMES_SUPERVISED_CHILD") == "" || code == exitcode.OK || code == exitcode.Restart || code == exitcode.Config {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(slowFailure - env.Now().Sub(began)):
	}
	return err
}

// slowFailure is how long a supervised start that fails takes at least.
const slowFailure = 5 * time.Second

func (o *runOptions) serve(ctx context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	if err := unserved(h); err != nil {
		return err
	}
	more, confirm, err := begin(ctx, env, h)
	if err != nil {
		return err
	}
	notices, err := current(h, env)
	if err != nil {
		return err
	}
	if o.replace {
		if err := replace(ctx, env, h); err != nil {
			return err
		}
	}
	return serve(ctx, env, h, append(more, notices...), served(confirm, nil))
}

// unserved refuses to run the gateway of a profile that the default home's gateway serves (services
// spec §2.8). Only the word of the process that runs counts: what a dead one left keeps nobody
// from a gateway (H#109473).
func unserved(h home.Home) error {
	root := h.Root()
	if root.Dir == h.Dir {
		return nil
	}
	r, live, err := gateway.Running(root)
	if err != nil || !live {
		return nil //nolint:nilerr // nobody says so
	}
	s, err := gateway.ReadStatus(root)
	if err != nil || s.PID != r.PID || !slices.Contains(s.Profiles, h.Profile) {
		return nil //nolint:nilerr // nobody says so
	}
	if of, err := appliance.NewEnvironments(appliance.Options{Launch: root}); err == nil && fleet.GivingBack(root, of.Multiplex) {
		return nil
	}
	return &configError{fmt.Errorf("%s is served by the gateway of %s, process %d; %s gateway migrate --standalone gives it one of its own", h.Profile, root.Dir, r.PID, Name)}
}

// errOlder says that a config is older than this program.
var errOlder = errors.New("the config is older than this program")

// current checks that a home's config is not older than this program; it may be newer. The error
// wraps errOlder if that is all.
func current(h home.Home, env Env) (notices []string, err error) {
	r, err := migrator(env).Preview(h, migrate.Options{})
	switch {
	case exitcode.Of(err) == exitcode.Newer:
		return []string{"config is newer than this program (" + err.Error() + "); it is read and never written"}, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, &configError{err}
	case r.Plan != nil && r.Plan.Pending():
		return nil, &configError{fmt.Errorf("%s: %w; run %s migrate --home %s", h.Config(), errOlder, Name, h.Dir)}
	}
	return nil, nil
}

// served joins what is to be done once a gateway serves; both may be nil.
func served(confirm func(context.Context) error, then func(gateway.Status)) func(context.Context, gateway.Status) error {
	return func(ctx context.Context, s gateway.Status) error {
		if then != nil {
			then(s)
		}
		if confirm == nil {
			return nil
		}
		return confirm(ctx)
	}
}

// serve runs the gateway; ready is called once it serves.
func serve(ctx context.Context, env Env, h home.Home, notices []string, ready func(context.Context, gateway.Status) error) error {
	out, closeLog, err := logWriter(h, env.Stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	log := slog.New(slog.NewTextHandler(out, nil))
	bin, err := os.Executable()
	if err != nil {
		bin = ""
	}
	build := buildinfo.Read()
	pid := os.Getpid()
	sockets, err := takeSockets(env.Getenv, pid)
	if err != nil {
		return &configError{err}
	}
	for _, name := range sockets.unknown("api_server", "webhook") {
		log.Warn("the service manager passed a socket that nothing here serves", "name", name)
	}
	e, err := environments(env, h, log, bin)
	if err != nil {
		return err
	}
	notify := service.Notifier{Socket: env.Getenv("NOTIFY_SOCKET")}
	tell := func(what string, err error) {
		if err != nil {
			log.Warn("the service manager was not told", "what", what, "error", err)
		}
	}
	defer func() { tell("stopping", notify.Stopping(context.WithoutCancel(ctx))) }()
	return appliance.Serve(ctx, appliance.ServeOptions{
		Environments: e, Log: log, Now: env.Now, Argv: append([]string{bin}, "gateway", "run"), Version: build.Version, Revision: build.Revision,
		Temp: temp(env), Notices: notices, Restart: env.Restart,
		Listen: sockets.listen, Watchdog: watchdogTime(env.Getenv, pid), Exit: env.Exit, Dump: env.Stderr,
		Ready: func(s gateway.Status) {
			tell("ready", notify.Ready(ctx, fmt.Sprintf("serving %d profiles", len(s.Profiles))))
			if err := ready(ctx, s); err != nil {
				log.Warn("an update that was cut off is not finished", "error", err)
			}
			go debug.FreeOSMemory() // what the start needed; a gateway may then wait for days
		},
		Alive:   func() { tell("alive", notify.Alive(context.WithoutCancel(ctx))) },
		Waiting: func(d time.Duration) { tell("waiting", notify.Wait(ctx, d)) },
	})
}

// environments reads what the profiles and the service manager say of secrets. What the manager
// hands over wrongly, is not run on.
func environments(env Env, h home.Home, log *slog.Logger, bin string) (*appliance.Environments, error) {
	var given secret.Credentials
	if dir := env.Getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		var err error
		if given, err = secret.ReadCredentials(dir); err != nil {
			return nil, &configError{err}
		}
	}
	e, err := appliance.NewEnvironments(appliance.Options{
		Launch: h, Environ: others(childenv.TakeEnviron()), Log: log, BinDir: dirOf(bin), Latest: migrate.Latest(), Credentials: given,
	})
	if _, ok := errors.AsType[*secret.CredentialError](err); ok {
		return nil, &configError{err}
	}
	return e, err
}

func dirOf(path string) string {
	if path == "" {
		return ""
	}
	return filepath.Dir(path)
}

// keepLog is how much of the end of gateway.log a start keeps once it is twice as long.
const keepLog = 5 << 20

// logWriter writes to the home's log and to w, with what looks like a credential hidden.
func logWriter(h home.Home, w io.Writer) (io.Writer, func(), error) {
	path := gatewayLog(h)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, err
	}
	if err := trimLog(h, path); err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	hide := &hiding{r: redact.New(true, nil), out: io.MultiWriter(f, w)}
	return hide, func() { f.Close() }, nil //nolint:errcheck // what could be written was
}

// trimLog cuts the beginning of a long log off. One that a running gateway writes is left to it.
func trimLog(h home.Home, path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Size() <= 2*keepLog {
		return nil //nolint:nilerr // opening it will say what is wrong
	}
	if _, running, err := gateway.Running(h); running || err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, tail, _ := bytes.Cut(data[len(data)-keepLog:], []byte("\n")) // from the next whole line on
	return atomicfile.Writer{}.Write(path, tail, atomicfile.Options{Mode: 0o600})
}

// hiding redacts whole log records.
type hiding struct {
	r   *redact.Redactor
	out io.Writer
}

func (h *hiding) Write(p []byte) (int, error) {
	if _, err := io.WriteString(h.out, h.r.String(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func gatewayLog(h home.Home) string { return filepath.Join(h.Dir, "logs", "gateway.log") }

// wait is how long commands wait for an answer of a running gateway, on a machine that is busy.
const wait = 15 * time.Second
