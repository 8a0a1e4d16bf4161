// SPDX-License-Identifier: MIT

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

type mcpOptions struct {
	homeOptions
	server string
}

func newMCP(st *state) *cobra.Command {
	return group(st, "mcp", "Log in to MCP servers",
		"MCP servers stand in mcp_servers of config.yaml and are started by the gateway. One with auth: oauth wants a person to log\nin once.",
		"  hermes-appliance mcp login github", newMCPLogin(st))
}

func newMCPLogin(st *state) *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use: "login SERVER [FLAGS]", Short: "Log in to an MCP server that has auth: oauth",
		Long: "Prints an address to open in a browser, waits until you have logged in there, and keeps the login in mcp-tokens/ of the\n" +
			"profile, where upstream keeps it. The browser may be on another machine: it ends on an address of this one that it cannot\n" +
			"reach, and you paste that address here. A running gateway finds the login by itself, within a minute. Servers that know\n" +
			"no registration want oauth.client_id, and perhaps oauth.client_secret, in their entry.",
		DisableFlagsInUseLine: true, Example: "  hermes-appliance mcp login github --profile work", Args: cobra.ExactArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st.started = true
		o.server = args[0]
		return o.login(cmd.Context(), st.env)
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Unparseable, exitcode.Config, exitcode.Interrupted)
	o.register(cmd)
	return cmd
}

func (o *mcpOptions) login(ctx context.Context, env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	e, err := appliance.NewEnvironments(appliance.Options{Launch: h, Environ: childenv.TakeEnviron(), Log: quiet, Latest: migrate.Latest()})
	if err != nil {
		return err
	}
	rt := appliance.NewRuntime(ctx, appliance.RuntimeOptions{Environments: e, Log: quiet, Now: env.Now})
	defer rt.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it has started nothing
	tools, err := rt.LogIn(ctx, "", o.server, mcp.Login{
		Pasted: lines(env.Stdin),
		Say:    func(text string) { fmt.Fprintln(env.Stderr, text) }, //nolint:errcheck // nobody is there
		Show: func(address, ends string) {
			//nolint:errcheck // nobody is there
			fmt.Fprintf(env.Stderr, "Open this address in a browser and log in:\n\n  %s\n\nThe browser ends on %s?code=…\n"+
				"If it runs on another machine it cannot show that page: copy the whole address from it, paste it here, and press Enter.\n", address, ends)
		},
	})
	if errors.Is(err, mcp.ErrNoLogin) {
		return fmt.Errorf("mcp_servers.%s: %w; if it refuses its tools all the same, it wants oauth.client_id in its entry", o.server, err)
	}
	if err != nil {
		return fmt.Errorf("mcp_servers.%s: %w", o.server, err)
	}
	_, err = fmt.Fprintf(env.Stdout, "%s: logged in to %s, which offers %d tools\n", h.Profile, o.server, tools)
	return err
}

// lines yields what is typed, until there is no more. Its reader ends with the process.
func lines(in io.Reader) <-chan string {
	out := make(chan string)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(in); s.Scan(); {
			out <- s.Text()
		}
	}()
	return out
}
