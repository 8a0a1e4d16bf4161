// SPDX-License-Identifier: MIT

package approval

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// textListed reports whether an allowlist has this command: its text, or a glob that matches.
func textListed(command string, list []string) bool {
	command = strings.TrimSpace(command)
	for _, e := range list {
		e = strings.TrimSpace(e)
		if e != "" && (e == command || strings.ContainsAny(e, "*?[") && fnmatch(e, command)) {
			return true
		}
	}
	return false
}

// ReadList reads "command_allowlist" as YAML decodes it. Anything but a list of texts is an
// error and grants nothing: a text is not taken apart.
func ReadList(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []string:
		return slices.Clone(v), nil
	case []any:
		var out []string
		for i, e := range v {
			s, ok := e.(string)
			if !ok {
				return nil, fmt.Errorf("command_allowlist: entry %d is not text", i+1)
			}
			out = append(out, s)
		}
		return out, nil
	}
	return nil, fmt.Errorf("command_allowlist: not a list")
}

// AddTo returns a list with the grants that it lacks at its end.
func AddTo(list, grants []string) []string {
	out := slices.Clone(list)
	for _, g := range grants {
		if g = strings.TrimSpace(g); g != "" && !slices.Contains(out, g) {
			out = append(out, g)
		}
	}
	return out
}

// RemoveFrom returns a list without some grants.
func RemoveFrom(list, grants []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(e string) bool { return slices.Contains(grants, strings.TrimSpace(e)) })
}

// Store keeps the "command_allowlist" of every profile: the config package, which is the only
// one to write a config.yaml. home is the profile's home key.
type Store interface {
	LoadAllowlist(ctx context.Context, home string) ([]string, error)
	// EditAllowlist applies edit to that profile's current list and saves the result, so that
	// nothing another process wrote is lost. It fails in a managed or read-only home.
	EditAllowlist(ctx context.Context, home string, edit func([]string) []string) error
}

// Lists are the permanent allowlists, one per profile home. It keeps no copy: what one
// profile has cannot be seen by another, and an entry taken out of a config is gone at once.
// It is safe for concurrent use if the store is.
type Lists struct {
	store Store
	log   *slog.Logger
}

// NewLists returns the allowlists in a store.
func NewLists(store Store, log *slog.Logger) *Lists { return &Lists{store, log} }

// Read returns the allowlist of one profile. One that cannot be loaded is empty (A3).
func (l *Lists) Read(ctx context.Context, home string) []string {
	if home == "" {
		return nil
	}
	list, err := l.store.LoadAllowlist(ctx, home)
	if err != nil {
		l.log.WarnContext(ctx, "command allowlist not loaded; nothing is pre-approved", "home", home, "error", err)
		return nil
	}
	return slices.Clone(list)
}

// Add grants permanently in one profile.
func (l *Lists) Add(ctx context.Context, home string, grants []string) error {
	return l.edit(ctx, home, grants, AddTo)
}

// Remove takes permanent grants of one profile back.
func (l *Lists) Remove(ctx context.Context, home string, grants []string) error {
	return l.edit(ctx, home, grants, RemoveFrom)
}

func (l *Lists) edit(ctx context.Context, home string, grants []string, how func(list, grants []string) []string) error {
	if home == "" || len(grants) == 0 {
		return nil
	}
	grants = slices.Clone(grants)
	if err := l.store.EditAllowlist(ctx, home, func(list []string) []string { return how(list, grants) }); err != nil {
		return fmt.Errorf("command_allowlist of %s: %w", home, err)
	}
	return nil
}
