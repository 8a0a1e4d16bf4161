// SPDX-License-Identifier: MIT

// Command hermes-appliance runs the appliance: see the README. This package is the edge of
// the process: signals, standard streams and the exit code; everything else is elsewhere.
package main

import (
	"context"
	"crypto/x509"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/cli"
)

func main() { os.Exit(run()) }

func run() int {
	if noRoots(os.Getenv, "/") {
		x509.SetFallbackRoots(builtInRoots())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	restart := make(chan struct{}, 1)
	drains := make(chan os.Signal, 1)
	notifyDrain(drains)
	go func() {
		for range drains {
			select {
			case restart <- struct{}{}:
			default: // one is enough
			}
		}
	}()
	return int(cli.Main(ctx, cli.Arguments(os.Args, os.Getenv), cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Now: time.Now, Restart: restart, Exit: os.Exit,
	}))
}
