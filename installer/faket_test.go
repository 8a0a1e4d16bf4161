// SPDX-License-Identifier: MIT

//go:build unix

package installer

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// fakeT is what a scene needs of a test, in a process that runs none.
type fakeT struct{ testing.TB }

func (fakeT) Helper()                  {}
func (fakeT) Context() context.Context { return context.Background() }
func (fakeT) Fatal(args ...any)        { fmt.Println(args...); os.Exit(4) }
