// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
)

// tokensDir is where a home keeps its logins to MCP servers.
const tokensDir = "mcp-tokens"

// loginCommand is the command that logs in to a server of the profile, less the server's name.
func (t *Tenant) loginCommand() string {
	command := "hermes-appliance mcp login --home " + t.rt.env.o.Launch.Root().Dir
	if t.home.Profile != home.Default {
		command += " --profile " + t.home.Profile
	}
	return command
}

// LogIn has a person log in to an MCP server of a profile, "" for the launch profile. Show, Say
// and Pasted of l are the caller's.
func (r *Runtime) LogIn(ctx context.Context, profile, server string, l mcp.Login) (tools int, err error) {
	t, err := r.Tenant(profile)
	if err != nil {
		return 0, err
	}
	ctx, b, err := t.bind(ctx)
	if err != nil {
		return 0, err
	}
	entries, err := b.view.Map("mcp_servers")
	if err != nil {
		return 0, err
	}
	if entries[server] == nil {
		return 0, fmt.Errorf("config.yaml of %s has no mcp_servers.%s", t.home.Profile, server)
	}
	list, problems := mcp.Parse(entries)
	for _, s := range list {
		if s.Name == server {
			l.Server, l.Tokens, l.Version = s, filepath.Join(t.home.Dir, tokensDir), r.version
			return mcp.LogIn(ctx, l)
		}
	}
	return 0, errors.Join(problems...)
}
