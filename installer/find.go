// SPDX-License-Identifier: MIT

package installer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Found is a definition of a gateway's service that stands on the host.
type Found struct {
	Scope service.Scope `json:"scope"`
	Name  string        `json:"name"` // without .service
	File  string        `json:"file"` // path on the host
	Home  string        `json:"home"` // pinned in it, "" = none is
	User  string        `json:"user,omitempty"`
	Ours  bool          `json:"ours"`
}

// isGateway tells names of our family from those that only begin like it.
func isGateway(name string) bool {
	return name == service.Base || strings.HasPrefix(name, service.Base+"-")
}

// find returns the gateways' services that stand in a directory of definitions, whatever their
// names (H#109476). Files that cannot be read are left out: what is asked about them reports it.
func (h Host) find(t Target) ([]Found, error) {
	entries, err := os.ReadDir(h.path(t.dir()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	suffix := strings.TrimPrefix(filepath.Base(Target{Kind: t.Kind, Name: "x"}.file()), Target{Kind: t.Kind, Name: "x"}.Unit())
	if t.Kind == Systemd {
		suffix = ".service"
	}
	var out []Found
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffix)
		if name = bare(t.Kind, name); !ok || e.IsDir() || !isGateway(name) {
			continue
		}
		path := filepath.Join(t.dir(), e.Name())
		data, st, err := atomicfile.Read(h.path(path))
		if err != nil || !st.Exists {
			continue
		}
		f := Found{Scope: t.Scope, Name: name, File: path, Ours: provenance(t.Kind, data).Ours}
		f.Home, f.User = pinned(t.Kind, string(data))
		out = append(out, f)
	}
	return out, nil
}

// bare turns a manager's name back into that of the service.
func bare(kind Kind, name string) string {
	switch kind {
	case Launchd:
		if rest, ok := strings.CutPrefix(name, "ai.hermes.gateway"); ok {
			return service.Base + rest
		}
		return ""
	case Tasks:
		if rest, ok := strings.CutPrefix(name, "Hermes_Gateway"); ok {
			return service.Base + strings.Replace(rest, "_", "-", 1)
		}
		return ""
	case Systemd, OpenRC, SysV:
	}
	return name
}

// reInitUser is how the scripts for OpenRC and SysV say whom the service runs as.
var reInitUser = regexp.MustCompile(`(?m)(?:^command_user=|--chuid )'([^':]+):`)

// pinned returns the home that a definition serves and the user it runs as, "" where it does
// not say. It reads upstream's definitions and hand-written ones, too.
func pinned(kind Kind, data string) (homeDir, user string) {
	if kind != Systemd {
		if m := reInitUser.FindStringSubmatch(data); m != nil {
			user = m[1]
		}
		return provenance(kind, []byte(data)).Home, user
	}
	u, err := service.ParseUnit(data)
	if err != nil {
		return "", ""
	}
	for _, line := range u.All("Service", "Environment") {
		words, err := service.Words(line, false)
		if err != nil {
			continue
		}
		for _, w := range words {
			if v, ok := strings.CutPrefix(w, home.EnvHome+"="); ok {
				homeDir = v
			}
		}
	}
	if all := u.All("Service", "User"); len(all) > 0 {
		user = all[len(all)-1]
	}
	return homeDir, user
}

// provenance tells where a definition comes from. Formats in which the hash cannot stand in the
// first line have it in a comment further down; a task, whose text the scheduler rewrites, is
// ours by its place.
func provenance(kind Kind, data []byte) service.Provenance {
	text := string(data)
	switch kind {
	case Systemd:
		return service.Inspect(text)
	case OpenRC, SysV:
		_, rest, _ := strings.Cut(text, "\n") // after #!
		return service.Inspect(rest)
	case Launchd:
		return commented(text)
	case Tasks:
		return service.Provenance{Ours: true, Home: taskHome(data)}
	}
	return service.Provenance{}
}

// Services returns every service of the family that stands on the host, of the system and of
// the user that self is.
func (h Host) Services(kind Kind, self Account) ([]Found, error) {
	scopes := []service.Scope{service.System, service.User}
	switch kind {
	case Launchd, Tasks:
		scopes = scopes[1:]
	case OpenRC, SysV:
		scopes = scopes[:1]
	case Systemd:
	}
	var out []Found
	for _, s := range scopes {
		t := Target{Kind: kind, Scope: s, Account: self}
		if s == service.User && kind == Systemd && self.Home == "" || kind == Tasks {
			continue
		}
		found, err := h.find(t)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// legacy returns a unit of upstream's old name that runs a gateway. Only that one name, and only
// with one of these words in it, never by a pattern of names.
func (h Host) legacy(t Target) string {
	if t.Kind != Systemd {
		return ""
	}
	path := filepath.Join(t.dir(), "hermes.service")
	data, err := os.ReadFile(h.path(path))
	if err != nil {
		return ""
	}
	for _, mark := range []string{"hermes gateway run", "hermes_cli.main gateway", "hermes_cli/main.py gateway", "gateway/run.py", "hermes gateway"} {
		if strings.Contains(string(data), mark) {
			return path
		}
	}
	return ""
}

// self is the account of this process. It is empty where nobody can say.
func (h Host) self(ctx context.Context) Account {
	for _, name := range []string{uidName(h), h.Getenv("USER"), h.Getenv("USERNAME")} {
		if name == "" {
			continue
		}
		if a, err := h.Lookup(ctx, name); err == nil {
			return a
		}
	}
	return Account{Name: h.Getenv("USER"), Home: h.Getenv("HOME"), UID: h.UID}
}

func sortFound(f []Found) {
	slices.SortFunc(f, func(a, b Found) int { return strings.Compare(string(a.Scope)+a.Name, string(b.Scope)+b.Name) })
}
