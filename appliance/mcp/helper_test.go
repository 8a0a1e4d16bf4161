// SPDX-License-Identifier: MIT

package mcp

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"
)

// soon is a context that ends when something hangs.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until nothing is wrong any more, and fails with what is wrong in the end.
func eventually(t testing.TB, wrong func() string) {
	t.Helper()
	for ctx := soon(t); ; time.Sleep(10 * time.Millisecond) {
		text := wrong()
		if text == "" {
			return
		}
		if ctx.Err() != nil {
			t.Error(text)
			return
		}
	}
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func has(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q is not in %q", p, text)
		}
	}
}

func hasNot(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%q is in %q", p, text)
		}
	}
}
