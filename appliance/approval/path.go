// SPDX-License-Identifier: MIT

package approval

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// resolve returns the paths an argument may mean: relative to every directory the command may
// be in by then, with the user's home as ~. It is never empty.
func (k *checker) resolve(arg string) []string { return k.places(arg, true) }

// places is resolve; without follow, a path that is a link itself does not mean its target.
func (k *checker) places(arg string, follow bool) []string {
	var out []string
	for _, d := range k.vars[cwd].values {
		p := k.fold(join(d, arg))
		out = append(out, p)
		for _, link := range slices.Sorted(maps.Keys(k.links)) {
			if within(p, link) && (follow || p != link) && len(out) < 2*maxValues {
				out = append(out, k.fold(k.links[link]+p[len(link):]))
			}
		}
	}
	return out
}

// fold brings a path to the one spelling that the rules know.
func (k *checker) fold(p string) string {
	p = strings.TrimRight(p, "\r")
	if p == "" {
		return p
	}
	home := path.Clean(k.ctx.UserHome)
	if !strings.HasPrefix(home, "/") || home == "/" {
		home = "/home/~"
	}
	if p == "~" || strings.HasPrefix(p, "~/") {
		p = home + p[1:]
	}
	p = path.Clean(p)
	if m := procRoot.FindString(p); m != "" {
		p = path.Clean("/" + p[len(m):])
	}
	for _, dir := range []string{"/etc", "/var", "/tmp", "/home"} { // macOS
		if within(p, "/private"+dir) {
			p = strings.TrimPrefix(p, "/private")
		}
	}
	if within(p, home) {
		p = "~" + p[len(home):]
	}
	return p
}

var procRoot = regexp.MustCompile(`^/proc/(self|thread-self|\d+|\*|\x00|\x02)/root`)

// within reports whether p is dir or lies in it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// hits reports whether a path, which may have globs in it, may mean a file.
func hits(p, file string) bool {
	if p == file {
		return true
	}
	if !strings.ContainsAny(p, "*?[") {
		return false
	}
	ok, err := path.Match(p, file)
	return ok || err != nil
}

// protected are the directories whose recursive deletion nobody can take back.
func protected() []string {
	return []string{
		"/", "~", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/nix", "/proc", "/root", "/run",
		"/sbin", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/sbin", "/usr/share", "/var", "/var/lib",
		"/Applications", "/Library", "/System", "/Users", "/private",
	}
}

// isProtected reports whether deleting p deletes a protected directory or all that is in it.
func isProtected(p string) bool {
	dir := p
	for {
		base := path.Base(dir)
		if dir == "/" || strings.Trim(base, "*?.") != "" || !strings.Contains(base, "*") || !strings.Contains(dir, "/") {
			break
		}
		dir = path.Dir(dir) // everything in dir is as much as dir
	}
	for _, d := range protected() {
		if hits(dir, d) || hits(p, d) {
			return true
		}
	}
	return false
}

// wide reports whether a recursive delete of p reaches beyond a part of the working
// directory, and whether it leaves it.
func (k *checker) wide(p, spelled string) (wide, outside bool) {
	if startsUnknown(p) {
		return true, false
	}
	if strings.HasPrefix(p, "/") || strings.HasPrefix(p, "~") {
		dir := k.fold(k.ctx.Dir)
		relative := !strings.HasPrefix(spelled, "/") && !strings.HasPrefix(spelled, "~")
		if k.ctx.Dir == "" || !within(p, dir) || isProtected(dir) && (dir != "~" || !relative) {
			return true, true
		}
		p = strings.TrimPrefix(strings.TrimPrefix(p, dir), "/")
	}
	switch p {
	case "", ".", "*", ".*", ".git", "..":
		return true, false
	}
	return strings.HasPrefix(p, "../") || strings.HasPrefix(p, "**"), false
}

// isDisk reports whether a path is a block device; maybe, if it may be one.
func isDisk(p string) (disk, maybe bool) {
	rest, ok := strings.CutPrefix(p, "/dev/")
	if !ok {
		return false, false
	}
	if blockDevice.MatchString(rest) {
		return true, true
	}
	return false, strings.ContainsAny(rest, "*?["+holes) && !strings.HasPrefix(rest, "fd/")
}

var blockDevice = regexp.MustCompile(`^((sd|hd|vd|xvd|nvme|mmcblk|md|dm-|loop|nbd|zd|pmem)[a-z0-9]*|r?disk[0-9]+[a-z0-9]*|mapper/.+|disk/by-.+/.+|zvol/.+|mtd[a-z0-9]+|bcache[0-9]+|root)$`)

// home returns the part of p below a Hermes home. Profiles are homes in a home.
func (k *checker) home(p string) (rel string, ok bool) {
	for _, h := range append([]string{"~/.hermes", "/etc/hermes"}, k.ctx.Homes...) {
		h = k.fold(h)
		if h == "" || h == "/" || h == "~" || !within(p, h) {
			continue
		}
		rel = strings.TrimPrefix(strings.TrimPrefix(p, h), "/")
		if parts := strings.SplitN(rel, "/", 3); parts[0] == "profiles" && len(parts) > 1 {
			rel = strings.Join(parts[2:], "/")
		}
		return rel, true
	}
	return "", false
}

// holdsApprovals reports whether p is a file with approval settings or, when deleted or
// replaced as a whole, a directory with one.
func (k *checker) holdsApprovals(p string, whole bool) bool {
	if rel, ok := k.home(p); ok {
		return hits(rel, "config.yaml") || hits(rel, ".managed") || whole && (rel == "" || rel == "profiles" || strings.Trim(rel, "*.") == "")
	}
	if !whole {
		return k.globbedHome(p)
	}
	for _, h := range append([]string{"~/.hermes", "/etc/hermes"}, k.ctx.Homes...) {
		if h = k.fold(h); h != "" && p != "" && (within(h, p) || hits(p, h)) && p != "." {
			return true
		}
	}
	return k.globbedHome(p)
}

// globbedHome finds patterns that mean a config file in a home, as in ~/.h*/config.yaml.
func (k *checker) globbedHome(p string) bool {
	for _, h := range append([]string{"~/.hermes", "/etc/hermes"}, k.ctx.Homes...) {
		if strings.ContainsAny(p, "*?[") && hits(p, k.fold(h)+"/config.yaml") {
			return true
		}
	}
	return false
}

// write notes that a file is written, replaced or removed.
func (k *checker) write(arg string) {
	for _, p := range k.resolve(arg) {
		if disk, maybe := isDisk(p); disk {
			k.emit(FloorDisk)
			continue
		} else if maybe {
			k.when("if it is a disk", func() { k.emit(FloorDisk) })
			continue
		}
		if k.holdsApprovals(p, false) {
			k.emit(FloorApprovals)
			continue
		}
		if id := k.class(p, arg); id != "" {
			k.emit(id)
		}
	}
}

// class says which rule a file that is written falls under, or "".
func (k *checker) class(p, arg string) ID {
	switch {
	case p == "/proc/sysrq-trigger":
		return FloorShutdown
	case p == "/dev/mem" || p == "/dev/kmem" || p == "/dev/port" || p == "/dev/nvram":
		return FloorDisk
	case harmlessDevice.MatchString(p):
		return ""
	case within(p, "/dev"), within(p, "/proc"), within(p, "/sys"):
		return WriteDevice
	}
	if rel, ok := k.home(p); ok {
		if agentOwned.MatchString(rel) {
			return ""
		}
		return WriteHermes
	}
	for _, d := range []string{"/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/nix/store", "/sbin", "/usr", "/System", "/Library"} {
		if within(p, d) {
			return WriteSystem
		}
	}
	if id := homeClass(p); id != "" {
		return id
	}
	base := path.Base(p)
	if gitHook.MatchString(p) && path.Ext(base) != ".sample" {
		return WriteStartup
	}
	if strings.HasPrefix(base, ".env") && !harmlessEnv.MatchString(base) {
		return WriteEnv
	}
	if base == "config.yaml" && !strings.HasPrefix(p, "/") && !strings.HasPrefix(p, "~") && !strings.Contains(path.Clean(arg), "/") {
		return WriteEnv // it may be a home's: the directory is not known
	}
	return ""
}

var (
	harmlessDevice = regexp.MustCompile(`^/dev/(null|zero|full|u?random|tty|std(in|out|err)|fd/.*|shm/.+|pts/.*|ptmx)$`)
	agentOwned     = regexp.MustCompile(`^(skills|memories|cache|logs|sandboxes|tmp|workspace|cron/output)/`)
	harmlessEnv    = regexp.MustCompile(`^\.env(\.(example|sample|template|dist)|ironment)$`)
	credentials    = regexp.MustCompile(`^/(\.ssh|\.aws|\.gnupg|\.kube|\.azure|\.config/(gcloud|gh)|\.netrc|\.pgpass|\.npmrc|\.pypirc|\.git-credentials|\.docker/config\.json|\.password-store)(/|$)`)
	gitHook        = regexp.MustCompile(`(^|/)\.git/(modules/.+/)?(hooks/[^/]+|config)$`)
	startup        = regexp.MustCompile(`^/(\.(bashrc|bash_profile|bash_login|bash_aliases|bash_logout|zshrc|zshenv|zprofile|zlogin|profile|kshrc|xprofile|xinitrc|gitconfig|vimrc|pam_environment)$|\.config/(fish|systemd|autostart|environment\.d|git|nvim)(/|$)|Library/LaunchAgents(/|$))`)
)

// homeClass looks at files in somebody's home directory.
func homeClass(p string) ID {
	rest := ""
	switch {
	case strings.HasPrefix(p, "~/"):
		rest = p[1:]
	case strings.HasPrefix(p, "/root/"):
		rest = p[len("/root"):]
	case strings.HasPrefix(p, "/home/"), strings.HasPrefix(p, "/Users/"):
		if parts := strings.SplitN(p, "/", 4); len(parts) == 4 {
			rest = "/" + parts[3]
		}
	case within(p, "/var/spool/cron"):
		return WriteStartup
	}
	switch {
	case credentials.MatchString(rest):
		return WriteCredential
	case startup.MatchString(rest):
		return WriteStartup
	}
	return ""
}
