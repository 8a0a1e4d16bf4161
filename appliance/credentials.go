// SPDX-License-Identifier: MIT

package appliance

import (
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// credentials are what the service manager handed over for the home with a key: for the profile
// of the launch home's family that is there, and for no other.
func (e *Environments) credentials(key string) map[string]secret.Text {
	if len(e.o.Credentials) == 0 {
		return nil
	}
	launch := e.o.Launch
	if key == home.Key(launch.Dir) {
		given, err := e.o.Credentials.For(launch.Profile, launch.Profile)
		if err != nil {
			return nil // the start has refused it
		}
		return given
	}
	for id := range e.o.Credentials {
		if id == "" || id == launch.Profile {
			continue
		}
		if h, err := launch.NamedProfile(id); err == nil && key == home.Key(h.Dir) {
			return e.o.Credentials[id]
		}
	}
	return nil
}

// checkCredentials refuses names that no profile may have from outside: those of the process
// itself, and for a profile that shares it with others those that say where credentials are
// sent (N6). A profile that is not there is only said: it may come.
func (e *Environments) checkCredentials() error {
	launch := e.o.Launch
	if _, err := e.o.Credentials.For(launch.Profile, launch.Profile); err != nil {
		return err
	}
	var ids []string
	for id := range e.o.Credentials {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		for name := range e.o.Credentials[id] {
			switch {
			case e.policy.Global(name):
				return &secret.CredentialError{File: name, Msg: "this variable is the process's own and no secret of a profile"}
			case id != "" && id != launch.Profile && e.policy.Control(name):
				return &secret.CredentialError{File: id + "." + name, Msg: "it says where credentials are sent; a profile that shares the process with others must not change that"}
			}
		}
		if id == "" || id == home.Default {
			continue
		}
		if _, err := launch.NamedProfile(id); err != nil {
			e.o.Log.Warn("a credential is for a profile that is not there; nobody gets it", "profile", id)
		}
	}
	return nil
}
