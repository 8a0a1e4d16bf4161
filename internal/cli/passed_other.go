// SPDX-License-Identifier: MIT

//go:build !unix

package cli

// closeOnExec has nothing to do: no manager of this system passes files.
func closeOnExec(int) {}
