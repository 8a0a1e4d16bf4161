// SPDX-License-Identifier: MIT

package files

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// Guard says which files an agent's tools leave alone. It judges resolved paths only. It is a
// seat belt: a shell command of the same user reaches every one of these files.
type Guard struct {
	Homes     []Home   // every profile's home on this machine; unused for other hosts
	Profile   string   // the profile that the tools work for
	SafeRoots []string // HERMES_WRITE_SAFE_ROOT; none = everywhere
}

// Home is a Hermes home as the guard knows it.
type Home struct {
	Dir     string // resolved
	Profile string
}

// RefusedError is why a path is left alone.
type RefusedError struct {
	Path, Reason string
}

func (e *RefusedError) Error() string { return e.Path + ": " + e.Reason }

func refuse(at Place, format string, args ...any) error {
	return &RefusedError{at.Path, fmt.Sprintf(format, args...)}
}

// Read refuses credentials and what a read could hang on.
func (g Guard) Read(h Host, at Place) error {
	p := norm(at.Path)
	base := path.Base(p)
	switch {
	case device(p) && h.Local(), procSecret.MatchString(p):
		return refuse(at, "access denied: a device or the memory of a process")
	case isDotenv(base):
		return refuse(at, "access denied: environment files hold secrets; ask the user, or read the project's .env.example")
	case credentialFile(base), inDir(p, "mcp-tokens"):
		return refuse(at, "access denied: a store of credentials")
	}
	if home := norm(at.Home); home != "" && privateKey(strings.TrimPrefix(p, home)) && under(p, home) {
		return refuse(at, "access denied: private keys and credentials of the user")
	}
	if rel, _, ok := g.home(h, at, p); ok && homeSecret(rel) {
		return refuse(at, "access denied: Hermes keeps credentials here, and its tools use them for you")
	}
	return nil
}

// Write refuses what Read does but for a project's environment files, and what belongs to the
// system, to the user's credentials and to Hermes itself. foreign allows another profile's
// skills, plugins, cron jobs and memories: it takes the user's word.
func (g Guard) Write(h Host, at Place, foreign bool) error {
	p := norm(at.Path)
	if err := g.Read(h, at); err != nil {
		if _, _, own := g.home(h, at, p); own || !isDotenv(path.Base(p)) {
			return err
		}
	}
	switch {
	case systemPath(p):
		return refuse(at, "write denied: a file of the system; if the user wants it changed, use the terminal tool, which asks")
	case norm(at.Home) != "" && under(p, norm(at.Home)) && userCredential(strings.TrimPrefix(p, norm(at.Home)+"/")):
		return refuse(at, "write denied: keys and credentials of the user")
	}
	if rel, home, ok := g.home(h, at, p); ok {
		if homeOwn(rel) {
			return refuse(at, "write denied: Hermes itself writes this file; use its tools or commands for it (hermes-appliance config set …)")
		}
		if !foreign && g.Profile != "" && home.Profile != g.Profile && profileOwn(rel) {
			return refuse(at, "write denied: it belongs to the profile %q and this session runs under %q; pass cross_profile=true only if the user asked for it", home.Profile, g.Profile)
		}
	}
	return g.safe(at, p)
}

func (g Guard) safe(at Place, p string) error {
	if len(g.SafeRoots) == 0 {
		return nil
	}
	for _, root := range g.SafeRoots {
		if under(p, norm(root)) {
			return nil
		}
	}
	return refuse(at, "write denied: outside HERMES_WRITE_SAFE_ROOT (%s)", strings.Join(g.SafeRoots, string(filepath.ListSeparator)))
}

// home finds the Hermes home that a path lies in, the innermost of several, and the path in
// it. On other hosts that is what a backend mounts at the usual place.
func (g Guard) home(h Host, at Place, p string) (rel string, home Home, ok bool) {
	homes := g.Homes
	if !h.Local() && at.Home != "" {
		homes = []Home{{Dir: path.Join(at.Home, ".hermes"), Profile: g.Profile}}
	}
	for _, c := range homes {
		dir := norm(c.Dir)
		if under(p, dir) && len(c.Dir) > len(home.Dir) {
			rel, home, ok = strings.TrimPrefix(strings.TrimPrefix(p, dir), "/"), c, true
		}
	}
	if first, rest, _ := strings.Cut(rel, "/"); ok && first == "profiles" { // of a profile that nobody listed
		if id, inner, _ := strings.Cut(rest, "/"); inner != "" {
			rel, home.Profile = inner, id
		}
	}
	return rel, home, ok
}

// norm is the one spelling that the rules know: slashes and lower case, as file systems that
// take "AUTH.JSON" for "auth.json" would read it.
func norm(p string) string { return strings.ToLower(filepath.ToSlash(p)) }

func under(p, dir string) bool {
	return dir != "" && (p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/"))
}

// inDir reports whether a directory on the way has this name.
func inDir(p, name string) bool { return strings.Contains(p+"/", "/"+name+"/") }

var procSecret = regexp.MustCompile(`^/proc/(\d+|self|thread-self)/|^/proc/(kmsg|kcore|kpage)`)

func isDotenv(base string) bool {
	if base == ".env" || base == ".envrc" || base == ".op.env" {
		return true
	}
	kind, ok := strings.CutPrefix(base, ".env.")
	switch kind {
	case "example", "sample", "template", "dist", "defaults", "schema":
		return false
	}
	return ok
}

func credentialFile(base string) bool {
	switch base {
	case ".git-credentials", ".netrc", "_netrc", ".pgpass", ".anthropic_oauth.json":
		return true
	}
	return false
}

// privateKey goes by the path below the user's home, with its slash.
func privateKey(rel string) bool {
	switch rel {
	case "/.aws/credentials", "/.docker/config.json", "/.kube/config", "/.config/gh/hosts.yml", "/.pypirc", "/.npmrc":
		return true
	}
	return strings.HasPrefix(rel, "/.ssh/id_") && !strings.HasSuffix(rel, ".pub") || strings.HasPrefix(rel, "/.gnupg/private-keys")
}

func userCredential(rel string) bool {
	for _, dir := range []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".config/gh", ".config/gcloud"} {
		if under(rel, dir) {
			return true
		}
	}
	return rel == ".npmrc" || rel == ".pypirc"
}

func systemPath(p string) bool {
	for _, dir := range []string{"/etc", "/private/etc", "/boot", "/usr/lib/systemd", "/lib/systemd", "/proc", "/sys", "/private/var/db", "c:/windows"} {
		if under(p, dir) {
			return true
		}
	}
	return device(p) || path.Base(p) == "docker.sock"
}

// device reports whether a path is among the devices; /dev/shm holds files.
func device(p string) bool { return under(p, "/dev") && !under(p, "/dev/shm") }

// homeSecret goes by the path below a Hermes home.
func homeSecret(rel string) bool {
	for _, dir := range []string{"auth", "pairing", "mcp-tokens", "skills/.hub", "backups"} {
		if under(rel, dir) {
			return true
		}
	}
	base := path.Base(rel)
	return rel == "auth.json" || rel == "auth.lock" || rel == "webhook_subscriptions.json" || rel == "credentials" || isDotenv(base) ||
		strings.HasPrefix(rel, "cache/bws_cache") || strings.HasSuffix(base, "oauth.json") || strings.HasPrefix(rel, ".env")
}

// homeOwn are the files below a Hermes home that only Hermes writes.
func homeOwn(rel string) bool {
	for _, dir := range []string{"sessions", ".appliance", "backups", "cron/output"} {
		if under(rel, dir) {
			return true
		}
	}
	switch rel {
	case "config.yaml", ".managed", "profile.yaml", "cron/jobs.json", "gateway.pid", "gateway_state.json", "runtime_status.json":
		return true
	}
	return strings.HasPrefix(rel, "state.db") || strings.HasPrefix(rel, "kanban.db")
}

// profileOwn are the parts of a home that steer the agent of its profile.
func profileOwn(rel string) bool {
	for _, dir := range []string{"skills", "plugins", "cron", "memories", "hooks", "scripts"} {
		if under(rel, dir) {
			return true
		}
	}
	return rel == "soul.md"
}

// HomesOf returns the homes that a guard knows: the default one and every profile, as they are
// now. A profile that cannot be resolved is one that nobody can reach by another path either.
func HomesOf(h home.Home) ([]Home, error) {
	profiles, err := h.Profiles()
	if err != nil {
		return nil, err
	}
	var out []Home
	for _, p := range append([]home.Home{h.Root(), h}, profiles...) {
		dir, err := filepath.EvalSymlinks(p.Dir)
		if err != nil {
			dir = p.Dir
		}
		if c := (Home{dir, p.Profile}); !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out, nil
}
