// SPDX-License-Identifier: MIT

//go:build !windows

package main

import "context"

// supervised runs the program; where there is no service control manager it is nobody's service.
func supervised(ctx context.Context, run func(context.Context) int) int { return run(ctx) }
