// SPDX-License-Identifier: MIT

package migrate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// snapshot is a home's files as they were read.
type snapshot struct {
	in     Input
	states map[string]atomicfile.State
	notes  []string // files that were left out, and why
}

// read takes a snapshot. It opens files and changes nothing, not even an access time it
// could avoid.
func (m Migrator) read(h home.Home) (snapshot, error) {
	s := snapshot{states: map[string]atomicfile.State{}}
	for _, f := range []struct {
		name, path string
		into       *[]byte
	}{
		{FileConfig, h.Config(), &s.in.Config},
		{FileEnv, h.Env(), &s.in.Env},
		{FileSoul, h.Soul(), &s.in.Soul},
	} {
		data, st, err := atomicfile.Read(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, atomicfile.ErrNotRegular):
			if f.name == FileConfig {
				return s, m.noConfig(h, err)
			}
			// A pipe that a password manager feeds, a directory that a container engine made for a
			// mount without a source, a link into something that is not mounted: not ours to edit.
			s.notes = append(s.notes, fmt.Sprintf("%s is no file that can be edited and was not looked at (%v)", f.name, err))
			continue
		case err != nil:
			return s, unreadable(f.path, err)
		case st.Exists:
			*f.into = append([]byte{}, data...) // not nil: the file is there, if empty
		}
		s.states[f.name] = st
	}
	s.in.Name = h.Config()
	s.in.Getenv = m.Getenv
	s.in.Plugins = func() ([]string, error) { return plugins(h.Plugins()) }
	if dir := home.AdminDir(m.Getenv); dir != "" {
		data, st, err := atomicfile.Read(filepath.Join(dir, FileConfig))
		if err == nil && st.Exists {
			s.in.Admin = data
		}
	}
	return s, nil
}

// unreadable refuses a file that belongs to somebody else. Any other error stays as it is.
func unreadable(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &Refusal{Kind: ErrAmbiguous, File: path, Msg: "this user may not read it", Fix: "run as the user who owns it"}
}

// noConfig refuses a config.yaml that is there and cannot be read.
func (m Migrator) noConfig(h home.Home, err error) error {
	if errors.Is(err, atomicfile.ErrNotRegular) {
		return &Refusal{Kind: ErrAmbiguous, File: h.Config(), Msg: "is a directory, a pipe or a device; expected a file", Fix: "put a file there"}
	}
	r := &Refusal{Kind: ErrManaged, File: h.Config(), Msg: "is a link that leads nowhere", Fix: "make its target, or remove the link"}
	if owner, ferr := home.FileOwner(h.Config()); ferr == nil && owner == "nix store" {
		r.Msg, r.Fix = "is a link into a Nix store that is not here", "run where the store is mounted, or make the changes where the file is generated"
	}
	return r
}

// plugins returns the names of the plugins in a directory: of each subdirectory with a
// manifest, the name it gives itself, else the directory's.
func plugins(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if info, err := os.Stat(sub); err != nil || !info.IsDir() {
			continue
		}
		name, ok, err := pluginName(sub)
		if err != nil {
			return nil, fmt.Errorf("plugin %s: %w", e.Name(), err)
		}
		if ok {
			out = append(out, name)
		}
	}
	return out, nil
}

func pluginName(dir string) (name string, ok bool, err error) {
	for _, file := range []string{"plugin.yaml", "plugin.yml"} {
		data, st, err := atomicfile.Read(filepath.Join(dir, file))
		if err != nil {
			return "", false, err
		}
		if !st.Exists {
			continue
		}
		// A manifest that cannot be read does not take the plugin away: it goes by its directory.
		if doc, err := yamlspan.Parse(data); err == nil {
			if f, found := doc.Find("name"); found {
				if s, isText := yamlspan.Resolve(f.Node).(string); isText && strings.TrimSpace(s) != "" {
					return strings.TrimSpace(s), true, nil
				}
			}
		}
		return filepath.Base(dir), true, nil
	}
	return "", false, nil
}
