// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type upOptions struct{ homeOptions }

func newUp(st *state) *cobra.Command {
	var o upOptions
	cmd := &cobra.Command{
		Use: "up [FLAGS]", Short: "Make or migrate the home, and run the gateway",
		Long: "Starts a Hermes home as it is: makes one where there is none, migrates its config losslessly, runs the gateway in\n" +
			"the foreground, and says what runs where. Without a model provider the built-in rehearsal model answers.",
		DisableFlagsInUseLine: true, Example: "  hermes-appliance up", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Managed, exitcode.BelowFloor, exitcode.Locked,
		exitcode.Unparseable, exitcode.Restart, exitcode.Config)
	o.register(cmd)
	return cmd
}

func (o *upOptions) run(ctx context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	more, confirm, err := o.bring(ctx, env, h)
	if err != nil {
		return err
	}
	notices, err := current(h, env)
	if err != nil {
		return err
	}
	if person(env.Stdin) {
		if err := AskSwitch(ctx, env, h); err != nil {
			return err
		}
	}
	return serve(ctx, env, h, append(more, notices...), served(confirm, func(s gateway.Status) {
		fmt.Fprint(env.Stdout, upText(h, s)) //nolint:errcheck // the gateway is what counts
	}))
}

// bring settles an update that was cut off, then makes a home where there is none, or migrates
// what is there, every profile too unless one is named. It returns what the gateway is to say
// of that, and what is to be called once it serves.
func (o *homeOptions) bring(ctx context.Context, env Env, h home.Home) (notices []string, confirm func(context.Context) error, err error) {
	if r, ok, err := gateway.Running(h); err == nil && ok {
		return nil, nil, &home.LockedError{Home: h, Holder: fmt.Sprint(r.PID), Runs: true}
	}
	if err := unserved(h); err != nil {
		return nil, nil, err
	}
	if notices, confirm, err = begin(ctx, env, h); err != nil {
		return nil, nil, err
	}
	made, err := makeHome(h)
	if err != nil {
		return nil, nil, err
	}
	if made {
		fmt.Fprintf(env.Stderr, "made a new home in %s\n", h.Dir) //nolint:errcheck // the gateway is what counts
		newRecorder(env).record(ctx, h, generation.Up)
		return notices, confirm, nil
	}
	m := migrateOptions{home: o.home, profile: o.profile, all: o.profile == "", quiet: true, why: generation.Up}
	if err := m.run(ctx, env); err != nil && exitcode.Of(err) != exitcode.Newer {
		return nil, nil, err
	}
	return notices, confirm, nil
}

// person reports whether somebody sits at the other end.
func person(in io.Reader) bool {
	f, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0 && info.Name() != os.DevNull && info.Name() != filepath.Base(os.DevNull)
}

// envHeader is how the .env of a home that was made here begins.
const envHeader = "# Secrets of this home, NAME=value. A provider's key goes here, too, e.g. OPENROUTER_API_KEY=…\n"

// makeHome makes a home where there is none: the template, and an API with a key of its own.
// What is there already is left alone.
func makeHome(h home.Home) (bool, error) {
	if _, err := os.Lstat(h.Config()); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	w := atomicfile.Writer{}
	secrets, err := os.ReadFile(h.Env())
	if err == nil && strings.HasPrefix(string(secrets), envHeader) {
		// A start that was cut off had made this much.
		return true, w.Write(h.Config(), home.Template(), atomicfile.Options{Mode: 0o600})
	}
	if none, err := noHome(h); err != nil || !none {
		return false, err // a home without a config is one all the same
	}
	var key [24]byte
	if _, err := rand.Read(key[:]); err != nil {
		return false, err
	}
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return false, err
	}
	env := envHeader + "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=" + hex.EncodeToString(key[:]) + "\n"
	if err := w.Write(h.Env(), []byte(env), atomicfile.Options{Mode: 0o600}); err != nil {
		return false, err
	}
	return true, w.Write(h.Config(), home.Template(), atomicfile.Options{Mode: 0o600}) // last: with it the home is one
}

// noHome reports whether there is nothing of a home yet.
func noHome(h home.Home) (bool, error) {
	entries, err := os.ReadDir(h.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != "logs" }), err
}

// upText says what runs where, and what to do next.
func upText(h home.Home, s gateway.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The gateway of %s is up, process %d.\n", h.Dir, s.PID)
	api := ""
	for _, name := range slices.Sorted(maps.Keys(s.Platforms)) {
		p := s.Platforms[name]
		fmt.Fprintf(&b, "  %-12s %s", name, p.State)
		for _, more := range []string{p.Listener, p.Message} {
			if more != "" {
				b.WriteString("  " + more)
			}
		}
		b.WriteByte('\n')
		if p.Listener != "" && p.State == "connected" {
			api = p.Listener
		}
	}
	for _, n := range s.Notices {
		b.WriteString("  note: " + n + "\n")
	}
	if api == "" {
		fmt.Fprintf(&b, "Nobody can talk to it yet: put API_SERVER_ENABLED=true and API_SERVER_KEY=… into %s and start it again.\n", h.Env())
		return b.String()
	}
	fmt.Fprintf(&b, "Ask it something, from another terminal:\n  . %s && curl -s %s/v1/chat/completions -H \"Authorization: Bearer $API_SERVER_KEY\" \\\n"+
		"    -d '{\"messages\":[{\"role\":\"user\",\"content\":\"run: uname -a\"}]}'\n", quoteShell(h.Env()), api)
	fmt.Fprintf(&b, "Logs: %s\nCtrl-C stops it.\n", filepath.Join(h.Dir, "logs", "gateway.log"))
	return b.String()
}

// quoteShell makes a path a word of a shell.
func quoteShell(s string) string {
	if strings.ContainsAny(s, " \t'\"$`\\!&;|<>()*?[]{}~#") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
