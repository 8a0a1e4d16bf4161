// SPDX-License-Identifier: MIT

package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// ManifestName is the file in the default home that says what there was before; upstream's too.
const ManifestName = "gateway_migration.json"

// Manifest is what there was before a migration, version 1 of upstream's format. It is written
// once, before anything is taken away, and removed when everything is back.
type Manifest struct {
	Version     int       `json:"version"`
	MigratedAt  string    `json:"migrated_at"` // local time, 2026-11-30T08:00:00+0000
	FlagWas     bool      `json:"flag_was"`
	Default     Profile   `json:"default"`
	Secondaries []Profile `json:"secondaries"`
}

// profileDoc is a profile in the manifest.
type profileDoc struct {
	Profile     string    `json:"profile"`
	Home        string    `json:"home"`
	PID         *int      `json:"pid"`
	Service     *Service  `json:"service"` // the first of Services; the only one in old manifests
	Services    []Service `json:"services"`
	RunAs       *string   `json:"run_as_user"`
	UID         *int      `json:"uid"`
	RuntimeHome *string   `json:"runtime_home"`
}

// MarshalJSON writes a profile as upstream does, nulls included.
func (p Profile) MarshalJSON() ([]byte, error) {
	d := profileDoc{Profile: p.Name, Home: p.Home, Services: []Service{}, UID: p.UID}
	if p.PID > 0 {
		d.PID = &p.PID
	}
	if len(p.Services) > 0 {
		d.Service, d.Services = &p.Services[0], p.Services
	}
	if p.RunAs != "" {
		d.RunAs = &p.RunAs
	}
	if p.RuntimeHome != "" {
		d.RuntimeHome = &p.RuntimeHome
	}
	return json.Marshal(d)
}

// UnmarshalJSON reads a profile, also of a manifest that knew one service a profile only.
func (p *Profile) UnmarshalJSON(data []byte) error {
	var d profileDoc
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	*p = Profile{Name: d.Profile, Home: d.Home, Services: d.Services, UID: d.UID}
	if d.Services == nil && d.Service != nil {
		p.Services = []Service{*d.Service}
	}
	for _, s := range p.Services {
		if s.Kind == "" {
			return errors.New("a service without a kind")
		}
	}
	if d.PID != nil {
		p.PID = *d.PID
	}
	if d.RunAs != nil {
		p.RunAs = *d.RunAs
	}
	if d.RuntimeHome != nil {
		p.RuntimeHome = *d.RuntimeHome
	}
	return nil
}

// ManifestError says that a manifest is there and cannot be followed.
type ManifestError struct {
	File string
	Want string
	Err  error // nil = it is JSON, but not a manifest
}

func (e *ManifestError) Error() string {
	msg := e.File + ": expected " + e.Want
	if e.Err != nil {
		msg += ": " + e.Err.Error()
	}
	return msg + "; repair it, or move it away if every gateway is as you want it"
}

func (e *ManifestError) Unwrap() error { return e.Err }

func manifestPath(h home.Home) string { return filepath.Join(h.Dir, ManifestName) }

// readManifest returns nil if there is none, and a [*ManifestError] for one that must not be
// followed: who edits it by hand may have named another home.
func readManifest(h home.Home) (*Manifest, error) {
	path := manifestPath(h)
	data, st, err := atomicfile.Read(path)
	if err != nil || !st.Exists {
		return nil, err
	}
	bad := func(want string, err error) (*Manifest, error) { return nil, &ManifestError{path, want, err} }
	var raw struct {
		Version     *int             `json:"version"`
		MigratedAt  string           `json:"migrated_at"`
		FlagWas     bool             `json:"flag_was"`
		Default     *Profile         `json:"default"`
		Secondaries *json.RawMessage `json:"secondaries"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return bad("the manifest of a migration", err)
	}
	if raw.Version == nil || *raw.Version != 1 {
		return bad("version 1 of a manifest", nil)
	}
	m := Manifest{Version: 1, MigratedAt: raw.MigratedAt, FlagWas: raw.FlagWas}
	if raw.Secondaries != nil {
		if err := json.Unmarshal(*raw.Secondaries, &m.Secondaries); err != nil {
			return bad("a list of profiles as secondaries", err)
		}
	}
	if raw.Default != nil {
		m.Default = *raw.Default
	}
	m.Default.Name, m.Default.Home = home.Default, h.Dir // whatever path led here then
	seen := map[string]bool{}
	for i, p := range m.Secondaries {
		if !home.ValidID(p.Name) || p.Name == home.Default || seen[p.Name] || !filepath.IsAbs(p.Home) {
			return bad(fmt.Sprintf("a profile's id, once, and its absolute home in secondaries[%d]", i), nil)
		}
		seen[p.Name] = true
	}
	return &m, nil
}

func (f Fleet) writeManifest(m Manifest) error {
	if m.Secondaries == nil {
		m.Secondaries = []Profile{}
	}
	data, err := indented(m)
	if err != nil {
		return err
	}
	return f.write(manifestPath(f.Default), data)
}

// indented is JSON as upstream writes files of state: two spaces, no line end at the end.
func indented(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}

// stampLayout is how a manifest writes the time.
const stampLayout = "2006-01-02T15:04:05-0700"

func newManifest(o Observed, now time.Time) Manifest {
	return Manifest{
		Version: 1, MigratedAt: now.Format(stampLayout), FlagWas: o.FlagOn,
		Default: o.byName(home.Default), Secondaries: o.standalone(),
	}
}

// target is the manager that the one gateway shall have, and the account it runs as: its own,
// else that of the first profile that has one, so that a fleet stays with its manager. nil = no
// manager was in use.
func target(profiles ...Profile) (s *Service, account string) {
	for _, p := range profiles {
		if s == nil && len(p.Services) > 0 {
			s = &p.Services[0]
		}
		if account == "" {
			account = p.RunAs
		}
	}
	return s, account
}

// runAs is the account of a unit: a user's own has none.
func runAs(s Service, account string) string {
	if s.System {
		return account
	}
	return ""
}

func (m Manifest) target() (*Service, string) {
	return target(append([]Profile{m.Default}, m.Secondaries...)...)
}
