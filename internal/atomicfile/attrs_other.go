// SPDX-License-Identifier: MIT

//go:build !linux && !darwin

package atomicfile

import "os"

// copyAttrs does nothing: this system has no attributes that we know how to copy.
func copyAttrs(string, *os.File) error { return nil }
