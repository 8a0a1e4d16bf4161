// SPDX-License-Identifier: MIT

// Package config says what a home's configuration is: documented defaults, the home's
// config.yaml over them, the administrator's over that, key by key; the TERMINAL_* policy
// that follows from it for one profile; and whether the sandbox image is the user's choice.
// It never writes but by exact edits of single keys that somebody asked for, never reads an
// environment it was not handed, and never shows a value that could be a secret.
//
// A [Config] and a [View] never change and are safe for concurrent use.
package config

import (
	_ "embed"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knadh/koanf/v2"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

//go:embed defaults.yaml
var defaults []byte

// defaultsFile is the name of the defaults in messages.
const defaultsFile = "built-in defaults"

// fileConfig is the name of the file in a home and in the administrator's directory.
const fileConfig = "config.yaml"

// stampKey is the top-level key that holds the version of the file's format.
const stampKey = "_config_version"

// Origin says which file decides a value; a higher one wins over a lower.
type Origin uint8

// Unset is the origin of a key that no file has.
const (
	Unset Origin = iota
	Default
	User
	Admin
)

func (o Origin) String() string {
	switch o {
	case Default:
		return "default"
	case User:
		return "user"
	case Admin:
		return "admin"
	}
	return "unset"
}

// File is the content of a file. Nil Data is a file that is not there.
type File struct {
	Path string
	Data []byte
}

// Config is the overlay of all files, read once.
type Config struct {
	layers   map[Origin]*layer
	leaves   []leaf
	k        *koanf.Koanf    // the number in leaves of the leaf that counts, by the id of its path
	sections map[string]bool // the ids of all sections
	misfits  map[string]leaf // by id: what the user has where a section belongs
	warnings []error
	path     string
	sorted   func() []string // the ids of all leaves and sections
}

// Options say where to look beside the home. The zero value is the home alone, in silence.
type Options struct {
	AdminDir string       // the administrator's directory, see [home.AdminDir]; "" = none
	Log      *slog.Logger // told about files that are ignored; nil = nobody
}

// Load reads the files of a home. A config.yaml that is not there is an empty one; one that
// is there and cannot be read is an [*Error] of [ErrUnreadable]. An administrator's file
// that cannot be read is ignored: that is logged and among the [Config.Warnings].
func Load(h home.Home, o Options) (*Config, error) {
	user, err := readFile(h.Config())
	if err != nil {
		return nil, err
	}
	var admin File
	var unread error
	if o.AdminDir != "" {
		admin, unread = readFile(filepath.Join(o.AdminDir, fileConfig))
	}
	c, err := Parse(user, admin)
	if err != nil {
		return nil, err
	}
	if unread != nil {
		c.warnings = append(c.warnings, unread)
	}
	if o.Log != nil {
		for _, w := range c.warnings {
			o.Log.Error("administrator's config ignored", "error", w)
		}
	}
	return c, nil
}

// readFile reads a file that may be missing.
func readFile(path string) (File, error) {
	data, st, err := atomicfile.Read(path)
	if err == nil {
		if st.Exists && data == nil {
			data = []byte{}
		}
		return File{path, data}, nil
	}
	return File{Path: path}, unreadable(path, err)
}

// unreadable is the error of a file that is there and cannot be read.
func unreadable(path string, err error) *Error {
	e := &Error{Kind: ErrUnreadable, File: path, Msg: reason(err), Err: err}
	switch {
	case errors.Is(err, atomicfile.ErrNotRegular):
		e.Msg, e.Fix = "is a directory, a pipe or a device; expected a file", "put a file there"
	case errors.Is(err, fs.ErrNotExist):
		e.Msg, e.Fix = "is a link that leads nowhere", "make its target, or remove the link"
	case errors.Is(err, fs.ErrPermission):
		e.Msg, e.Fix = "this user may not read it", "run as the user who owns it"
	}
	return e
}

// reason is an error without the path that its report names anyway.
func reason(err error) string {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Op + ": " + pe.Err.Error()
	}
	return err.Error()
}

func newConfig(path string) *Config {
	c := &Config{
		layers: map[Origin]*layer{}, k: koanf.New(delim), path: path,
		sections: map[string]bool{}, misfits: map[string]leaf{},
	}
	c.sorted = sync.OnceValue(func() []string {
		ids := append(slices.Collect(maps.Keys(c.sections)), c.k.Keys()...)
		slices.Sort(ids)
		return ids
	})
	return c
}

// Parse overlays files that were read. The error is an [*Error] of [ErrUnreadable] for the
// user's file; a fault of the administrator's is among the [Config.Warnings].
func Parse(user, admin File) (*Config, error) {
	c := newConfig(user.Path)
	if err := c.overlay(File{defaultsFile, defaults}, Default); err != nil {
		return nil, err
	}
	if user.Data != nil {
		if err := c.overlay(user, User); err != nil {
			return nil, err
		}
	}
	if admin.Data != nil {
		if err := c.overlay(admin, Admin); err != nil {
			c.warnings = append(c.warnings, err)
		}
	}
	return c, nil
}

// overlay puts a file over what there is. After an error c is what it was.
func (c *Config) overlay(f File, from Origin) error {
	l, err := newLayer(f.Path, f.Data, from)
	if err != nil {
		return err
	}
	t, err := l.tree()
	if err != nil {
		return err
	}
	over := make(provider, len(t.ids))
	for i, id := range t.ids {
		if c.sections[id] {
			c.misfit(t.leaves[i], id)
			continue
		}
		over[id] = len(c.leaves) + i
	}
	for _, id := range t.sections {
		if c.sections[id] = true; c.k.Exists(id) {
			c.k.Delete(id) // a section takes the place of a single value
		}
	}
	if err := c.k.Load(over, nil); err != nil {
		return &Error{Kind: ErrUnreadable, File: f.Path, Msg: err.Error(), Err: err}
	}
	c.leaves, c.layers[from] = append(c.leaves, t.leaves...), l
	return nil
}

// misfit takes note of something that stands where a section does in a file below. It does
// not take that section away: one without content is absent, the administrator's is ignored,
// and the user's makes an error of every read in there.
func (c *Config) misfit(l leaf, id string) {
	switch {
	case l.value() == nil:
	case l.layer.from == User:
		c.misfits[id] = l
	default:
		c.warnings = append(c.warnings, l.misfit(split(id)))
	}
}

func (l leaf) misfit(path []string) *Error {
	return &Error{
		Kind: ErrType, File: l.layer.file, Line: l.line(), Path: path,
		Msg: "is " + kindOf(l.node) + "; expected a section of keys", Fix: "write its keys on lines of their own below it",
	}
}

// provider hands koanf a map that is made already.
type provider map[string]any

// Read implements koanf.Provider.
func (p provider) Read() (map[string]any, error) { return p, nil }

// ReadBytes implements koanf.Provider; it is not called where there is no parser.
func (p provider) ReadBytes() ([]byte, error) { return nil, errors.ErrUnsupported }

// Path returns the path of the user's file, whether it is there or not.
func (c *Config) Path() string { return c.path }

// Exists reports whether the user has a file.
func (c *Config) Exists() bool { return c.layers[User] != nil }

// Warnings returns why an administrator's file was ignored; each is an [*Error].
func (c *Config) Warnings() []error { return append([]error(nil), c.warnings...) }

// at returns the leaf at a path; section says that there is a section of keys instead.
func (c *Config) at(path []string) (l leaf, section, ok bool) {
	id, valid := join(path)
	if !valid || id == "" { // koanf takes "" for all that it has
		return leaf{}, valid, valid
	}
	if i, ok := c.k.Get(id).(int); ok {
		return c.leaves[i], false, true
	}
	return leaf{}, c.sections[id], c.sections[id]
}

// below returns the ids of all that is in a section, at any depth, sorted.
func (c *Config) below(section string) []string {
	ids := c.sorted()
	from, _ := slices.BinarySearch(ids, section+delim)
	to := from
	for to < len(ids) && strings.HasPrefix(ids[to], section+delim) {
		to++
	}
	return ids[from:to]
}

// Origin returns which file decides a value; for a section, the highest of those that have
// a part in it.
func (c *Config) Origin(path ...string) Origin {
	l, section, ok := c.at(path)
	if !ok || !section {
		if ok {
			return l.layer.from
		}
		return Unset
	}
	for _, o := range []Origin{Admin, User} {
		if l := c.layers[o]; l != nil {
			if f, ok := l.doc.Find(path...); ok && isSection(f.Node) {
				return o
			}
		}
	}
	return Default
}

// Has reports whether a path leads to something other than null.
func (c *Config) Has(path ...string) bool {
	l, section, ok := c.at(path)
	return ok && (section || l.value() != nil)
}

// Line returns the file that decides a value and the 1-based line of its key; "" and 0 for a
// section and for what no file has.
func (c *Config) Line(path ...string) (file string, line int) {
	l, section, ok := c.at(path)
	if !ok || section {
		return "", 0
	}
	return l.layer.file, l.line()
}

// Stamp is the version of a config file's format.
type Stamp struct {
	Version int  // 0 if there is none, or none that can be read
	Present bool // the key is there
	Valid   bool // it holds a version
}

// Stamp reads the version from the user's own file, never from what lies over or under it,
// with upstream's leniency: a whole number, also as text or with a fraction that is cut off.
func (c *Config) Stamp() Stamp {
	l := c.layers[User]
	if l == nil {
		return Stamp{}
	}
	f, ok := l.doc.Find(stampKey)
	if !ok {
		return Stamp{}
	}
	s := Stamp{Present: true}
	n := -1.0
	switch v := yamlspan.Resolve(f.Node).(type) {
	case int64:
		n = float64(v)
	case float64:
		n = v
	case string:
		if i, err := strconv.Atoi(strings.TrimSpace(v)); err == nil {
			n = float64(i)
		}
	}
	if n >= 0 && n <= math.MaxInt32 {
		s.Version, s.Valid = int(n), true
	}
	return s
}
