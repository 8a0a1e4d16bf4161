// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Cache remembers what the files of homes say for as long as they are unchanged: an edit, a
// file put in its place with the same time stamp and a removal all count at the next call
// (C4). An error is never remembered. It is safe for concurrent use; make one with
// [NewCache].
type Cache struct {
	now   func() time.Time
	mu    sync.Mutex
	homes map[string]remembered
}

type remembered struct {
	stamp string
	files files
}

// NewCache returns an empty cache.
func NewCache() *Cache { return &Cache{now: time.Now, homes: map[string]remembered{}} }

// Load is [Load]. As long as it returns the same Config, none of the files that a home's
// config, environment and bootstrap tokens come from was changed.
func (c *Cache) Load(h home.Home, o Options) (*Config, error) {
	f, err := c.files(h, o)
	return f.config, err
}

// Terminal is [LoadTerminal].
func (c *Cache) Terminal(h home.Home, o Options, in TerminalInput) (*Terminal, error) {
	f, err := c.files(h, o)
	if err != nil {
		return nil, &Refusal{err}
	}
	return f.terminal(in)
}

// Forget drops what is known of a home, as when its profile is deleted.
func (c *Cache) Forget(h home.Home) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.homes {
		if strings.HasPrefix(key, h.Dir+"\x00") {
			delete(c.homes, key)
		}
	}
}

func (c *Cache) files(h home.Home, o Options) (files, error) {
	key := h.Dir + "\x00" + o.AdminDir
	started := c.now()
	before, settled := stampOf(started, h, o)
	c.mu.Lock()
	old, ok := c.homes[key]
	c.mu.Unlock()
	if ok && old.stamp == before && before != "" {
		return old.files, nil
	}
	f, err := loadFiles(h, o)
	after, _ := stampOf(started, h, o)
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.homes, key); err == nil && f.envErr == nil && settled && after == before {
		c.homes[key] = remembered{before, f}
	}
	return f, err
}

// stampOf tells the present files of a home from those of another moment; "" = they cannot
// be told. settled says that none was written just before.
func stampOf(now time.Time, h home.Home, o Options) (stamp string, settled bool) {
	paths := []string{h.Config(), h.Env(), filepath.Join(h.Dir, ".op.env")}
	if o.AdminDir != "" {
		paths = append(paths, filepath.Join(o.AdminDir, fileConfig), filepath.Join(o.AdminDir, ".env"))
	}
	var b strings.Builder
	settled = true
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err == nil:
			b.WriteString(atomicfile.Stamp(info) + "\n")
			settled = settled && now.Sub(atomicfile.ChangeTime(info)).Abs() >= atomicfile.Settle
		case errors.Is(err, fs.ErrNotExist):
			b.WriteString("none\n")
			if _, err := os.Lstat(path); err == nil {
				return "", false // a link that leads nowhere is an error, not an empty file
			}
		default:
			return "", false
		}
	}
	return b.String(), settled
}

// files is what the files of one home say.
type files struct {
	config        *Config
	env, adminEnv *dotenv.File // nil = none
	envErr        error        // the .env is there and cannot be read
}

// loadFiles reads them. The error is that of [Load].
func loadFiles(h home.Home, o Options) (f files, err error) {
	if f.config, err = Load(h, o); err != nil {
		return files{}, err
	}
	f.env, f.envErr = readEnv(h.Env())
	if o.AdminDir != "" {
		var adminErr error
		if f.adminEnv, adminErr = readEnv(filepath.Join(o.AdminDir, ".env")); adminErr != nil && o.Log != nil {
			o.Log.Error("administrator's .env ignored", "error", adminErr)
		}
	}
	return f, nil
}

// terminal makes the policy.
func (f files) terminal(in TerminalInput) (*Terminal, error) {
	if f.envErr != nil {
		return nil, &Refusal{f.envErr}
	}
	in.Config, in.Env, in.AdminEnv = f.config, f.env, f.adminEnv
	return NewTerminal(in)
}
