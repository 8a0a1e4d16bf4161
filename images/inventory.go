// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
)

const (
	maxMetadata   = 64 << 20  // a package database
	maxExecutable = 256 << 20 // a Go program
	minExecutable = 64 << 10  // no Go program is smaller
)

// inventory is what an image's file system says is installed.
type inventory struct {
	files      map[string]found // by path: what is left after all layers
	dirs       map[string]int   // how many of files are below a directory
	components []Component
	distro     string   // "debian-13"
	skipped    []string // executables too large to look into
}

func newInventory() *inventory { return &inventory{files: map[string]found{}, dirs: map[string]int{}} }

// found is a file that says something.
type found struct {
	kind string // "dpkg", "pypi", "npm", "os" or "golang"
	data []byte // the file, or for golang the build info
	skip bool
}

// inventory reads the layers in order, as an engine would unpack them.
func (i *Image) inventory(ctx context.Context) (*inventory, error) {
	inv := newInventory()
	if err := i.walk(ctx, inv.see); err != nil {
		return inv, err
	}
	inv.sum()
	return inv, nil
}

// see notes one entry of a layer.
func (v *inventory) see(_ int, h *tar.Header, content io.Reader) error {
	p := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
	dir, base := path.Split(p)
	if base == ".wh..wh..opq" {
		v.remove(strings.TrimSuffix(dir, "/"), false)
		return nil
	}
	if gone, ok := strings.CutPrefix(base, ".wh."); ok {
		v.remove(dir+gone, true)
		return nil
	}
	if h.Typeflag != tar.TypeDir {
		v.remove(p, true)
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	kind := kindOf(p)
	if kind == "" {
		return v.executable(p, h, content)
	}
	data, err := io.ReadAll(io.LimitReader(content, maxMetadata+1))
	if err != nil {
		return err
	}
	if len(data) > maxMetadata {
		return fmt.Errorf("/%s is larger than %d bytes", p, maxMetadata)
	}
	v.keep(p, found{kind: kind, data: data})
	return nil
}

// remove forgets what is below a path, and the path itself.
func (v *inventory) remove(p string, self bool) {
	if self {
		v.forget(p)
	}
	if v.dirs[p] == 0 { // of most files of an image nothing is noted
		return
	}
	for f := range v.files {
		if strings.HasPrefix(f, p+"/") {
			v.forget(f)
		}
	}
}

// keep notes a file.
func (v *inventory) keep(p string, f found) {
	v.forget(p)
	v.files[p] = f
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		v.dirs[d]++
	}
}

func (v *inventory) forget(p string) {
	if _, ok := v.files[p]; !ok {
		return
	}
	delete(v.files, p)
	for d := path.Dir(p); d != "."; d = path.Dir(d) {
		v.dirs[d]--
	}
}

// kindOf says what a file is by its path.
func kindOf(p string) string {
	dir, base := path.Split(p)
	switch {
	case p == "var/lib/dpkg/status", strings.HasPrefix(p, "var/lib/dpkg/status.d/") && !strings.HasSuffix(p, ".md5sums"):
		return "dpkg"
	case p == "etc/os-release", p == "usr/lib/os-release":
		return "os"
	case base == "METADATA" && strings.HasSuffix(dir, ".dist-info/"):
		return "pypi"
	case base == "package.json":
		parent, _ := path.Split(strings.TrimSuffix(dir, "/"))
		if strings.HasPrefix(path.Base(parent), "@") {
			parent, _ = path.Split(strings.TrimSuffix(parent, "/"))
		}
		if path.Base(parent) == "node_modules" {
			return "npm"
		}
	}
	return ""
}

// executable looks for the build info of a Go program.
func (v *inventory) executable(p string, h *tar.Header, content io.Reader) error {
	if h.Mode&0o111 == 0 || h.Size < minExecutable {
		return nil
	}
	in := bufio.NewReader(content)
	if magic, err := in.Peek(4); err != nil || string(magic) != "\x7fELF" {
		return err
	}
	if h.Size > maxExecutable {
		v.keep(p, found{kind: "golang", skip: true})
		return nil
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	if info, err := buildinfo.Read(bytes.NewReader(data)); err == nil {
		v.keep(p, found{kind: "golang", data: []byte(info.String())})
	}
	return nil
}

// sum turns the files into components.
func (v *inventory) sum() {
	for p, f := range v.files {
		switch f.kind {
		case "dpkg":
			v.components = append(v.components, dpkg(p, f.data)...)
		case "pypi":
			h := fields(f.data)
			v.add(Component{Kind: "pypi", Name: h["Name"], Version: h["Version"], Path: p})
		case "npm":
			var doc struct{ Name, Version string }
			// Packages ship fixtures by this name that are no package; those have no version.
			if err := json.Unmarshal(f.data, &doc); err == nil {
				v.add(Component{Kind: "npm", Name: doc.Name, Version: doc.Version, Path: p})
			}
		case "golang":
			if f.skip {
				v.skipped = append(v.skipped, "/"+p)
				continue
			}
			v.golang(p, string(f.data))
		case "os":
			v.distro = distro(f.data)
		}
	}
	v.components = sortComponents(v.components)
	slices.Sort(v.skipped)
}

func (v *inventory) add(c Component) {
	if c.Name != "" && c.Version != "" {
		v.components = append(v.components, c)
	}
}

// golang adds the modules of a Go program; of a replaced one, what replaced it.
func (v *inventory) golang(p, text string) {
	for line := range strings.Lines(text) {
		cols := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(cols) >= 2 && cols[0] == "go" {
			v.add(Component{Kind: "golang", Name: "stdlib", Version: strings.TrimPrefix(cols[1], "go"), Path: p})
		}
		if len(cols) < 3 {
			continue
		}
		switch cols[0] {
		case "=>":
			v.components = v.components[:len(v.components)-1]
			fallthrough
		case "mod", "dep":
			v.add(Component{Kind: "golang", Name: cols[1], Version: cols[2], Path: p})
		}
	}
}

// dpkg reads Debian's package database: what is installed, or was made so by hand in
// status.d, where a file is one package and has no status.
func dpkg(p string, data []byte) []Component {
	var out []Component
	for stanza := range strings.SplitSeq(string(data), "\n\n") {
		h := fields([]byte(stanza))
		status, has := h["Status"]
		if h["Package"] == "" || h["Version"] == "" || has && !strings.HasSuffix(status, " installed") {
			continue
		}
		out = append(out, Component{Kind: "deb", Name: h["Package"], Version: h["Version"], Arch: h["Architecture"], Path: p})
	}
	return out
}

// fields reads the header lines of a file like mail's, up to the first empty line.
func fields(data []byte) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if len(out) > 0 {
				break
			}
			continue
		}
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			if _, twice := out[name]; !twice {
				out[name] = strings.TrimSpace(value)
			}
		}
	}
	return out
}

// distro returns "debian-13" of an os-release file.
func distro(data []byte) string {
	h := map[string]string{}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			h[name] = strings.Trim(value, `"'`)
		}
	}
	if h["ID"] == "" || h["VERSION_ID"] == "" {
		return h["ID"]
	}
	return h["ID"] + "-" + h["VERSION_ID"]
}
