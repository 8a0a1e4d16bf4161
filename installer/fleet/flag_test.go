// SPDX-License-Identifier: MIT

package fleet

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// The flag of the fake config is a line of text.

const flagLine = "gateway: {multiplex_profiles: "

func (w *world) config() string {
	data, err := os.ReadFile(w.root().Config())
	w.must(err)
	return string(data)
}

func (w *world) On() (bool, error) { return strings.Contains(w.config(), flagLine+"true}"), nil }
func (w *world) Draft() (before, after []byte, err error) {
	text := w.config()
	if on, _ := w.On(); !on {
		rest := strings.NewReplacer("multiplex_profiles: false\n", "", flagLine+"false}\n", "").Replace(text)
		return []byte(text), []byte(rest + flagLine + "true}\n"), w.bad["flag"]
	}
	return []byte(text), []byte(text), w.bad["flag"]
}

func (w *world) Own() (bool, error) { return strings.Contains(w.config(), flagLine), nil }
func (w *world) OptedOut() (bool, error) {
	return strings.Contains(w.config(), "auto_multiplex_migration: false"), nil
}

func (w *world) Turn(ctx context.Context, on bool) error {
	if err := w.Clear(ctx); err != nil {
		return err
	}
	return w.op("flag", func() error {
		text := strings.Replace(w.config(), "multiplex_profiles: false\n", "", 1)
		return atomicfile.Writer{}.Write(w.root().Config(), fmt.Appendf(nil, "%s%s%v}\n", text, flagLine, on), atomicfile.Options{})
	})
}

func (w *world) Clear(context.Context) error {
	return w.op("clear flag", func() error {
		text := strings.NewReplacer(flagLine+"true}\n", "", flagLine+"false}\n", "").Replace(w.config())
		return atomicfile.Writer{}.Write(w.root().Config(), []byte(text), atomicfile.Options{})
	})
}
