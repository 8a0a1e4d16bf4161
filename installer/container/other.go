// SPDX-License-Identifier: MIT

//go:build !linux

package container

import (
	"context"
	"errors"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// ErrNoContainer says that containers run Linux only.
var ErrNoContainer = errors.New("this is the entry point of a Linux container; here, use \"up\"")

// Healed is what Heal did.
type Healed struct {
	Changed int
	Foreign []string
}

// Look is for Linux only.
func Look(string) (Facts, error) { return Facts{}, ErrNoContainer }

// Heal is for Linux only.
func Heal(string, Identity, Facts) (Healed, error) { return Healed{}, ErrNoContainer }

// Become is for Linux only.
func Become(Identity, []string, []string) error { return ErrNoContainer }

// Exec is for Linux only.
func Exec([]string, []string) error { return ErrNoContainer }

// Usable is for Linux only.
func Usable(string) error { return ErrNoContainer }

// Init is for Linux only.
func Init(context.Context, []string, []string, <-chan struct{}) (exitcode.Code, error) {
	return exitcode.Error, ErrNoContainer
}
