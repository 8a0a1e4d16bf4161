// SPDX-License-Identifier: MIT

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/moby/moby/api/types/mount"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// volume is one entry of docker_volumes.
type volume struct {
	source, target, options string
}

// parseVolume splits SOURCE:TARGET[:OPTIONS]. A drive letter's colon is part of SOURCE. ok is
// false for what names no target.
func parseVolume(s string) (v volume, ok bool) {
	start := 0
	if isDrive(s) {
		start = 2
	}
	i := strings.IndexByte(s[start:], ':')
	if i < 0 {
		return v, false
	}
	v.source = s[:start+i]
	v.target, v.options, _ = strings.Cut(s[start+i+1:], ":")
	return v, v.source != "" && path.IsAbs(v.target)
}

// isDrive reports whether a path begins with a drive letter.
func isDrive(s string) bool {
	return len(s) > 2 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') && ('a' <= s[0]|0x20 && s[0]|0x20 <= 'z')
}

// isPath reports whether a source is a path of the host and no volume's name.
func isPath(s string) bool { return strings.HasPrefix(s, "/") || isDrive(s) }

func (v volume) String() string {
	out := v.source + ":" + v.target
	if v.options != "" {
		out += ":" + v.options
	}
	return out
}

// layout is what is mounted where.
type layout struct {
	binds   []string
	mounts  []mount.Mount
	tmpfs   map[string]string
	workdir string
	notes   []string
}

// Where the two directories that a container leaves behind are mounted.
const (
	rootDir      = "/root"
	workspaceDir = "/workspace"
)

// lay decides what is mounted. It makes the directories of [Spec.Data].
func (e *Engine) lay(s Spec) (layout, error) {
	l := layout{tmpfs: map[string]string{}, workdir: s.Workdir}
	claimed := map[string]bool{}
	var volumes []volume
	for _, text := range s.Volumes {
		v, ok := parseVolume(text)
		if !ok {
			l.notes = append(l.notes, fmt.Sprintf("terminal.docker_volumes: %q is ignored; expected SOURCE:TARGET[:OPTIONS]", text))
			continue
		}
		claimed[path.Clean(v.target)] = true
		volumes = append(volumes, v)
	}
	project := e.placeProject(s, volumes, claimed, &l)
	for _, v := range append(project, volumes...) {
		if isPath(v.source) {
			src, err := e.onHost("the volume "+v.source, v.source)
			if err != nil {
				return l, err
			}
			v.source = src
		}
		l.binds = append(l.binds, v.String())
	}
	if err := e.layData(s, claimed, &l); err != nil {
		return l, err
	}
	return l, e.layMounts(s, claimed, &l)
}

// placeProject finds a place for the directory to work in. If a volume holds it already,
// tools are pointed there; a volume that owns /workspace pushes it to a second place.
func (e *Engine) placeProject(s Spec, volumes []volume, claimed map[string]bool, l *layout) []volume {
	if s.Project == "" {
		if l.workdir == "" {
			l.workdir = rootDir
		}
		return nil
	}
	at := ""
	var out []volume
	for _, v := range volumes {
		if isPath(v.source) && below(slash(s.Project), slash(v.source)) {
			at = path.Join(v.target, strings.TrimPrefix(slash(s.Project), slash(v.source)))
		}
	}
	for i := 1; at == ""; i++ {
		place := workspaceDir
		if i > 1 {
			place = fmt.Sprintf("%s-%d", workspaceDir, i)
		}
		if !claimed[place] {
			at, claimed[place] = place, true
			out = []volume{{source: s.Project, target: place}}
		}
	}
	if at != workspaceDir {
		l.notes = append(l.notes, fmt.Sprintf("%s is at %s in the sandbox: a volume of yours has %s", s.Project, at, workspaceDir))
	}
	if l.workdir == "" {
		l.workdir = at
	}
	return out
}

// slash cleans a path of the host for comparing; drive letters are one case.
func slash(p string) string {
	if isDrive(p) {
		p = strings.ToLower(p[:1]) + strings.ReplaceAll(p[1:], `\`, "/")
	}
	return path.Clean(p)
}

// layData mounts /root and /workspace: from Data, or as memory.
func (e *Engine) layData(s Spec, claimed map[string]bool, l *layout) error {
	owner := ""
	if uid, gid, ok := strings.Cut(s.User, ":"); ok {
		owner = ",mode=0700,uid=" + uid + ",gid=" + gid
	}
	if s.Data == "" {
		for dir, size := range map[string]string{workspaceDir: "10g", "/home": "1g", rootDir: "1g"} {
			if !claimed[dir] {
				l.tmpfs[dir] = "rw,exec,size=" + size + owner
			}
		}
		return nil
	}
	for _, d := range []struct{ name, target string }{{"home", rootDir}, {"workspace", workspaceDir}} {
		if claimed[d.target] {
			continue
		}
		dir := filepath.Join(s.Data, d.name)
		if err := makeAll(dir); err != nil {
			return &EngineError{Kind: ErrConfig, Op: "make a sandbox", Err: err, Fix: "make the directory writable, or set terminal.sandbox_dir"}
		}
		src, err := e.onHost("the sandbox's data", dir)
		if err != nil {
			return err
		}
		l.mounts = append(l.mounts, mount.Mount{Type: mount.TypeBind, Source: src, Target: d.target})
	}
	return nil
}

// makeAll makes a directory of the owner's own and the ones above it that are missing.
func makeAll(dir string) error {
	var w atomicfile.Writer
	parent := filepath.Dir(dir)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := makeAll(parent); err != nil {
			return err
		}
	}
	return w.Mkdir(dir, 0o700)
}

// layMounts adds what this program brings; what is not there is skipped and said.
func (e *Engine) layMounts(s Spec, claimed map[string]bool, l *layout) error {
	for _, m := range s.Mounts {
		info, err := os.Stat(m.Source)
		switch {
		case claimed[path.Clean(m.Target)]:
			l.notes = append(l.notes, fmt.Sprintf("%s is not mounted: a volume of yours has %s", m.Source, m.Target))
			continue
		case err != nil:
			l.notes = append(l.notes, fmt.Sprintf("%s is not mounted: it is not there", m.Source))
			continue
		case m.File && !info.Mode().IsRegular():
			l.notes = append(l.notes, fmt.Sprintf("%s is not mounted: it is no file", m.Source))
			continue
		}
		src, err := e.onHost(m.Source, m.Source)
		if err != nil {
			return err
		}
		l.mounts = append(l.mounts, mount.Mount{Type: mount.TypeBind, Source: src, Target: m.Target, ReadOnly: !m.Writable})
	}
	return nil
}
