// SPDX-License-Identifier: MIT

// Package update decides whether a file is a release of this program that may replace it: named
// by a signed list of checksums, for this system, and no older. What it cannot prove it refuses.
// It never asks the network, never runs what it has not proven, and replaces nothing itself:
// that is an activation of package generation.
package update

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Names of the files beside a release.
const (
	Checksums = "checksums.txt"
	Signature = Checksums + ".sig"
)

// Limits of what is read into memory.
const (
	maxList    = 1 << 20
	maxProgram = 1 << 30
)

// mainPackage is what a build of this program says it was built from.
const mainPackage = "github.com/hermes-appliance/hermes-appliance/cmd/hermes-appliance"

// Running is the program that would be replaced.
type Running struct {
	generation.Binary
	OS, Arch string
}

// Options say what may be.
type Options struct {
	Key       *images.Key // of the releases; nil = everything is refused
	Downgrade bool        // an older release may be put in place, and one whose order cannot be told
}

// Release is a proven file.
type Release struct {
	Binary  generation.Binary // Path is that of the program it replaces
	Current bool              // it is the program that runs
	Older   bool              // it goes back
	Program []byte
}

// Open proves the file at path by the list and the signature beside it. The error is a
// [*generation.Refusal].
func Open(path string, now Running, o Options) (Release, error) {
	if o.Key == nil {
		return Release{}, refuse(path, "pass --key FILE with the public key of the releases (cosign.pub)", "nothing can prove it: this is no release build, and has no key built in")
	}
	list, err := signedList(filepath.Dir(path), o.Key)
	if err != nil {
		return Release{}, err
	}
	data, err := read(path, maxProgram)
	if err != nil {
		return Release{}, err
	}
	sum := atomicfile.Hash(data)
	if err := list.check(path, sum); err != nil {
		return Release{}, err
	}
	name := filepath.Base(path)
	r := Release{Program: data, Binary: generation.Binary{Path: now.Path, SHA256: sum}}
	version, system, err := parseName(name)
	if err != nil {
		return Release{}, err
	}
	r.Binary.Version = version
	if want := now.OS + "/" + now.Arch; system != want {
		return Release{}, refuse(path, "take the file of this system", "is a program for %s, and this is %s", system, want)
	}
	if err := r.inspect(path, now); err != nil {
		return Release{}, err
	}
	if r.Current = sum == now.SHA256; r.Current {
		return r, nil
	}
	return r, r.order(path, now, o)
}

func refuse(file, fix, format string, args ...any) error {
	return &generation.Refusal{File: file, Msg: fmt.Sprintf(format, args...), Fix: fix}
}

// read reads a regular file of at most limit bytes.
func read(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && limit == maxList:
		return nil, refuse(path, "put the release's "+Checksums+" and "+Signature+" beside it", "there is no such file, and nothing else proves a release")
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, refuse(path, "", "expected a file")
	case info.Size() > limit:
		return nil, refuse(path, "", "is larger than %d MB", limit>>20)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // opened for reading
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = refuse(path, "", "is larger than %d MB", limit>>20)
	}
	return data, err
}

// list is a list of checksums: hash by name.
type list struct {
	path string
	sums map[string]string
}

// signedList reads the list in a directory and proves it.
func signedList(dir string, key *images.Key) (list, error) {
	l := list{filepath.Join(dir, Checksums), map[string]string{}}
	data, err := read(l.path, maxList)
	if err != nil {
		return l, err
	}
	sig, err := read(filepath.Join(dir, Signature), maxList)
	if err != nil {
		return l, err
	}
	if err := key.CheckDetached(data, sig); err != nil {
		return l, refuse(l.path, "fetch the release again, and compare the key with the one that the project publishes", "the signature beside it does not prove it: %v", err)
	}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		sum, name, ok := strings.Cut(line, " ")
		raw, err := hex.DecodeString(sum)
		name = strings.TrimPrefix(strings.TrimPrefix(name, " "), "*")
		if !ok || err != nil || len(raw) != 32 || name == "" || name != filepath.Base(name) || l.sums[name] != "" {
			return l, refuse(fmt.Sprintf("%s, line %d", l.path, n), "", "expected \"SHA256  NAME\" as sha256sum writes it, and each name once")
		}
		l.sums[name] = strings.ToLower(sum)
	}
	return l, nil
}

// check wants the list to name the file, and to say this checksum.
func (l list) check(path, sum string) error {
	switch want := l.sums[filepath.Base(path)]; want {
	case sum:
		return nil
	case "":
		return refuse(path, "fetch the release again; a file keeps the name that it has there", "%s does not name it", l.path)
	default:
		return refuse(path, "fetch it again", "its checksum is %s, and %s says %s: it is damaged or not the release", sum, Checksums, want)
	}
}

var reName = regexp.MustCompile(`^hermes-appliance_([^_]+)_([a-z0-9]+)_([a-z0-9]+)(?:\.exe)?$`)

func parseName(name string) (version, system string, err error) {
	m := reName.FindStringSubmatch(name)
	if m == nil {
		return "", "", refuse(name, "take the program itself", "expected hermes-appliance_VERSION_OS_ARCH")
	}
	return m[1], m[2] + "/" + m[3], nil
}

// inspect looks into the program: a signed list may still name something else.
func (r *Release) inspect(path string, now Running) error {
	info, err := buildinfo.Read(bytes.NewReader(r.Program))
	if err != nil {
		return refuse(path, "take the program of a release", "is no program that Go built: %v", err)
	}
	if info.Path != mainPackage {
		return refuse(path, "take the program of a release", "is another program, %s", info.Path)
	}
	set := map[string]string{}
	for _, s := range info.Settings {
		set[s.Key] = s.Value
	}
	if set["GOOS"] != now.OS || set["GOARCH"] != now.Arch {
		return refuse(path, "take the file of this system", "was built for %s/%s, whatever its name says, and this is %s/%s", set["GOOS"], set["GOARCH"], now.OS, now.Arch)
	}
	r.Binary.Revision = set["vcs.revision"]
	return nil
}

// order refuses to go back unless that is meant.
func (r *Release) order(path string, now Running, o Options) error {
	to, err := semver.StrictNewVersion(strings.TrimPrefix(r.Binary.Version, "v"))
	if err != nil {
		return refuse(path, "", "its version %q is none", r.Binary.Version)
	}
	from, _ := semver.StrictNewVersion(strings.TrimPrefix(now.Version, "v")) //nolint:errcheck // nil: a build without a version
	const fix = "--allow-downgrade does it all the same"
	switch {
	case from == nil && !o.Downgrade:
		return refuse(path, fix, "the program that runs is %q, and whether %s is newer cannot be told", now.Version, r.Binary.Version)
	case from == nil:
		return nil
	case to.Equal(from) && to.Metadata() == from.Metadata():
		return refuse(path, "releases do not change; fetch it again, and ask the project", "calls itself %s as the program that runs does, and is another file", r.Binary.Version)
	}
	r.Older = to.LessThan(from)
	if r.Older && !o.Downgrade {
		return refuse(path, fix, "is %s, older than %s that runs", r.Binary.Version, now.Version)
	}
	return nil
}

// ParseKey reads a key as it is built in: base64 of its PKIX form. nil = there is none.
func ParseKey(text string) (*images.Key, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no key is no error until something is to be proven
	}
	der, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the key that is built in: %w", err)
	}
	return images.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}
