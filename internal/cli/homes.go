// SPDX-License-Identifier: MIT

package cli

import (
	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// homeOptions choose the home a command works on.
type homeOptions struct {
	home, profile string
}

func (o *homeOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.home, "home", "", "the home `DIR` (default $HERMES_HOME, else ~/.hermes)")
	f.StringVar(&o.profile, "profile", "", "work on this profile `NAME`")
}

// locate returns the home that the options and the environment name.
func (o *homeOptions) locate(env Env) (home.Home, error) {
	h, err := home.Locate(o.home, env.Getenv)
	if err != nil {
		return h, usagef("%w", err)
	}
	if o.profile == "" {
		return h, nil
	}
	return h.NamedProfile(o.profile)
}
