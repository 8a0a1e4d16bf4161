// SPDX-License-Identifier: MIT

package service

// Packaged is the service that a distribution's package puts in place and does not enable: the
// gateway of an account of its own. It makes and migrates its home at start.
func Packaged() Spec {
	return Spec{
		Name: Base, Scope: System, Home: "/var/lib/hermes/.hermes", Exec: []string{"/usr/bin/hermes-appliance", "up"},
		Account: "hermes", Group: "hermes", AccountHome: "/var/lib/hermes",
	}
}
