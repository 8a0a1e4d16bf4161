// SPDX-License-Identifier: MIT

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyDrain has SIGUSR1 ask for a drain and a restart. A closed terminal or reader ends
// nothing.
func notifyDrain(c chan<- os.Signal) {
	signal.Notify(c, syscall.SIGUSR1)
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
}
