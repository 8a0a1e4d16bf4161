// SPDX-License-Identifier: MIT

package config

// PinSource says who chose the Docker image. A persisted sandbox made from another image is
// replaced only for a chosen one; the default merely follows the program.
type PinSource string

// The sources of a pin; the empty one is no pin.
const (
	NoPin       PinSource = ""
	PinConfig   PinSource = "config.yaml"
	PinEnvFile  PinSource = ".env"
	PinAdmin    PinSource = "administrator's config.yaml"
	PinAdminEnv PinSource = "administrator's .env"
	PinProcess  PinSource = "environment"
	PinLauncher PinSource = "launcher"
)

// Flag returns the verdict as [Pinned] carries it.
func (p PinSource) Flag() string {
	if p == NoPin {
		return "0"
	}
	return "1"
}

// evidence is where a Docker image is written for one profile. Every field is about a text
// that is there and not blank: null or blank is no choice.
type evidence struct {
	config    Origin // the file that has terminal.docker_image; below User = none
	adminEnv  bool
	envFile   bool   // the profile's own
	process   bool   // the launch profile's process; false for a routed profile
	inherited string // what that process has in [Pinned]
}

// pin is the one verdict. It goes by provenance, never by value: a file that spells out the
// default is a choice, and so is an operator's variable. What a launcher said about the
// image it passed on counts for that image alone: a verdict that arrives without one, or
// that is neither yes nor no, has lost its subject and says nothing. The highest source
// names the pin.
func pin(e evidence) PinSource {
	switch {
	case e.config == Admin:
		return PinAdmin
	case e.adminEnv:
		return PinAdminEnv
	case e.config == User:
		return PinConfig
	case e.envFile:
		return PinEnvFile
	case e.process && e.inherited == PinLauncher.Flag():
		return PinLauncher
	case e.process && e.inherited != NoPin.Flag():
		return PinProcess
	}
	return NoPin
}
