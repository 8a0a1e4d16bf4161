// SPDX-License-Identifier: MIT

package generation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// Names in a home.
const (
	manifestName = "manifest.json"
	newPrefix    = ".new-" // a generation that is being written
)

func (s Store) root() string { return filepath.Join(s.Home.State(), "generations") }

func (s Store) dir(n int) string { return filepath.Join(s.root(), strconv.Itoa(n)) }

// ConfigCopy is where a generation keeps its config.yaml.
func (s Store) ConfigCopy(n int) string { return filepath.Join(s.dir(n), migrate.FileConfig) }

func (s Store) unitCopy(n, i int) string {
	return filepath.Join(s.dir(n), "unit-"+strconv.Itoa(i))
}

// List returns the generations of the home, the oldest first. One that cannot be read is left
// out and named in the error, which is nil if there is none such.
func (s Store) List() ([]Manifest, error) {
	entries, err := os.ReadDir(s.root())
	if absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Manifest
	var errs []error
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n < 1 || strconv.Itoa(n) != e.Name() {
			continue
		}
		m, err := s.Load(n)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Manifest) int { return cmp.Compare(a.Number, b.Number) })
	return out, errors.Join(errs...)
}

// Load reads one generation. The error wraps [ErrNone] if it is not there.
func (s Store) Load(n int) (Manifest, error) {
	path := filepath.Join(s.dir(n), manifestName)
	data, st, err := atomicfile.Read(path)
	if err != nil {
		return Manifest{}, err
	}
	if !st.Exists {
		return Manifest{}, fmt.Errorf("generation %d: %w; \"generations list\" shows those that are kept", n, ErrNone)
	}
	var m Manifest
	err = decode(data, &m)
	if err == nil {
		err = m.valid(n)
	}
	if err != nil {
		return Manifest{}, damaged(path, err)
	}
	return m, nil
}

func damaged(path string, err error) error {
	return &Refusal{
		File: path, Msg: fmt.Sprintf("not of format %d: %v", formatVersion, err), Code: exitcode.Unparseable,
		Fix: "a newer hermes-appliance may have written it; use that one, or move it away to do without it",
	}
}

// decode reads one JSON value of known fields.
func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the end")
	}
	return nil
}

// valid checks everything that a path is made of.
func (m Manifest) valid(n int) error {
	switch {
	case m.Version != formatVersion:
		return fmt.Errorf("format %d", m.Version)
	case m.Number != n:
		return fmt.Errorf("it says that it is generation %d", m.Number)
	case !m.Binary.valid():
		return fmt.Errorf("program %q, %q", m.Binary.Path, m.Binary.SHA256)
	}
	for _, u := range m.Units {
		if !IsUnit(u.Path) {
			return fmt.Errorf("%q is no place for a unit", u.Path)
		}
	}
	return nil
}

func (b Binary) valid() bool {
	return filepath.IsAbs(b.Path) && len(b.SHA256) == 64 && filepath.Base(b.SHA256) == b.SHA256
}

// config returns a generation's config.yaml.
func (s Store) config(m Manifest) ([]byte, error) {
	if m.Config.SHA256 == "" {
		return nil, refuse("", "", "generation %d has no config.yaml", m.Number)
	}
	return s.intact(s.ConfigCopy(m.Number), m.Config.SHA256)
}

// intact reads a copy and compares its hash.
func (s Store) intact(path, sum string) ([]byte, error) {
	data, st, err := atomicfile.Read(path)
	if err != nil {
		return nil, err
	}
	if !st.Exists || st.SHA256 != sum {
		return nil, refuse(path, "choose another generation", "the copy is missing or damaged")
	}
	return data, nil
}

// Difference is one thing in which two generations differ.
type Difference struct {
	What string `json:"what"` // "program", "config", "unit", "sandbox"
	Path string `json:"path,omitempty"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// Diff compares two generations. config is the difference of their config.yaml for reading,
// with values hidden; "" = none.
func (s Store) Diff(a, b Manifest) (out []Difference, config string, err error) {
	out = differences(a, b)
	if a.Config.SHA256 == b.Config.SHA256 {
		return out, "", nil
	}
	var from, to []byte
	if a.Config.SHA256 != "" {
		if from, err = s.config(a); err != nil {
			return out, "", err
		}
	}
	if b.Config.SHA256 != "" {
		if to, err = s.config(b); err != nil {
			return out, "", err
		}
	}
	config, err = migrate.Compare(from, to)
	return out, config, err
}

func differences(a, b Manifest) []Difference {
	out := []Difference{}
	if a.Binary.SHA256 != b.Binary.SHA256 || a.Binary.Path != b.Binary.Path {
		out = append(out, Difference{"program", b.Binary.Path, a.Binary.named(), b.Binary.named()})
	}
	if a.Config.SHA256 != b.Config.SHA256 {
		out = append(out, Difference{"config", migrate.FileConfig, a.Config.named(), b.Config.named()})
	}
	units := map[string][2]string{}
	for i, m := range []Manifest{a, b} {
		for _, u := range m.Units {
			pair := units[u.Path]
			pair[i] = u.SHA256
			units[u.Path] = pair
		}
	}
	for _, path := range sorted(units) {
		if pair := units[path]; pair[0] != pair[1] {
			out = append(out, Difference{"unit", path, short(pair[0]), short(pair[1])})
		}
	}
	if a.Sandbox != b.Sandbox {
		out = append(out, Difference{What: "sandbox", Old: a.Sandbox.named(), New: b.Sandbox.named()})
	}
	return out
}

func (b Binary) named() string { return b.Version + " (sha256 " + short(b.SHA256) + ")" }

func (c Config) named() string {
	if c.SHA256 == "" {
		return "none"
	}
	return fmt.Sprintf("version %d (sha256 %s)", c.Stamp, short(c.SHA256))
}

func (x Sandbox) named() string {
	switch {
	case x.Image == "":
		return "none"
	case x.Digest == "":
		return x.Image
	}
	return x.Image + " (" + x.Digest + ")"
}

// short is enough of a hash to tell two apart.
func short(sum string) string {
	if sum == "" {
		return "none"
	}
	return sum[:min(12, len(sum))]
}
