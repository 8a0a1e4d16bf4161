// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// logsDoc is the result of logs --json.
type logsDoc struct {
	Log   string   `json:"log"`   // the file; what the journal alone has comes after it
	Lines []string `json:"lines"` // the oldest first
}

type logsOptions struct {
	homeOptions
	lines int
	json  bool
}

func newLogs(st *state) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use: "logs [FLAGS]", Short: "Print the end of the gateway's log",
		Long: "Prints the end of the gateway's log, and what the journal of its systemd service says since: a process that could not be\n" +
			"started, or ended before it could log, leaves its reason only there.",
		DisableFlagsInUseLine: true, Example: "  hermes-appliance logs --lines 50", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(ctx context.Context, env Env) error { return o.run(ctx, env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	o.register(cmd)
	cmd.Flags().IntVarP(&o.lines, "lines", "n", 100, "how many `LINES`")
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *logsOptions) run(ctx context.Context, env Env) error {
	if o.lines <= 0 {
		return usagef("--lines %d: expected a number above 0", o.lines)
	}
	h, journal, err := o.look(ctx, env)
	if err != nil {
		return err
	}
	path, last := gatewayLog(h), time.Time{}
	data, err := os.ReadFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		last = info.ModTime().Add(time.Second) // what it has the journal has as well
	}
	lines := slices.Concat(textLines(string(data)), textLines(journal(last)))
	if missing && len(lines) == 0 {
		return fmt.Errorf("%s: there is no log yet; start the gateway with %s up", path, Name)
	}
	lines = lines[max(0, len(lines)-o.lines):]
	if o.json {
		doc := logsDoc{Log: path, Lines: []string{}}
		for _, l := range lines {
			doc.Lines = append(doc.Lines, strings.TrimSuffix(l, "\n"))
		}
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "logs", Result: doc})
	}
	_, err = fmt.Fprint(env.Stdout, strings.Join(lines, ""))
	return err
}

// look finds the home that is meant, and how its service's journal is asked for what is newer
// than a time. Where no service is found the home's own log is all there is.
func (o *logsOptions) look(ctx context.Context, env Env) (h home.Home, journal func(since time.Time) string, err error) {
	none := func(time.Time) string { return "" }
	s := serviceOptions{homeOptions: o.homeOptions, looks: true}
	host, t, standing, err := s.resolve(ctx, env)
	if err == nil && standing != nil && standing.Home == t.Home.Dir {
		return t.Home, func(since time.Time) string { return host.Journal(ctx, t, o.lines, since, "short-iso") }, nil
	}
	h, err = o.locate(env)
	return h, none, err
}

// textLines are the lines of a text, each with its end.
func textLines(text string) []string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return slices.Collect(strings.Lines(text))
}
