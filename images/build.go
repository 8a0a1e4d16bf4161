// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// BuildOptions say what to build. The zero value, with Dir, is what a release would be but
// for its version: the lock's base, Playwright's Chromium, the real cua-driver.
type BuildOptions struct {
	Dir string // the project's directory
	Tag string // name in the engine and the layout

	// Program is a static program for Linux: the image is the gateway's, with that in it. "" = the
	// sandbox's.
	Program string

	Base    string // "" = the lock's; an image, or the path of a tar of a root filesystem
	Browser string // "" or "playwright"; "debian" = Debian's, where only that can be reached
	Cua     string // "" or "release"; "standin" = our own, which only lists windows

	Release  string // the version of a release, which no stand-in and nothing unresolved goes into; "" = none
	Revision string // the commit; a release needs it

	Builder string // "" or "classic"; "buildkit"

	Layout  string // directory of an OCI layout to write; "" = none
	Cache   string // directory for what is fetched through this machine; "" = the build fetches itself
	NoCache bool   // build every layer anew
}

// Built is a built image.
type Built struct {
	Exported
	Tag      string
	Arch     string
	Seconds  float64
	StandIns []string          // what stood in for a part that a release has
	Packages map[string]string // of Debian, by name
	Drift    []string          // how Packages differs from the lock, one line each
}

var (
	releasePattern  = regexp.MustCompile(`^v?\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)
	revisionPattern = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// RefusedError says why an image is not built, one reason a line.
type RefusedError struct{ Reasons []string }

func (e *RefusedError) Error() string {
	return "the image is not built:\n" + strings.Join(e.Reasons, "\n")
}

// Refuse returns a [RefusedError] if o must not be built with the lock.
func (l Lock) Refuse(o BuildOptions) error {
	var why []string
	no := func(bad bool, format string, args ...any) {
		if bad {
			why = append(why, fmt.Sprintf(format, args...))
		}
	}
	no(!slices.Contains([]string{"", "playwright", "debian"}, o.Browser), "browser is %q, expected playwright or debian", o.Browser)
	no(!slices.Contains([]string{"", "release", "standin"}, o.Cua), "cua-driver is %q, expected release or standin", o.Cua)
	no(!slices.Contains([]string{"", "classic", "buildkit"}, o.Builder), "builder is %q, expected classic or buildkit", o.Builder)
	no(o.Tag == "", "the image has no name; give one with --tag")
	missing := l.Unresolved()
	if o.Program != "" {
		missing = slices.DeleteFunc(missing, func(key string) bool { return key != "base.digest" && key != "apt.snapshot" })
		no(o.Browser == "debian" || o.Cua == "standin" || o.Cache != "", "the gateway's image has no browser, no cua-driver and nothing that is kept in a cache")
	}
	if o.Release == "" {
		if o.Browser != "debian" && o.Program == "" {
			for _, key := range missing {
				no(strings.HasPrefix(key, "chromium."), "%s: %s is unresolved; run \"images lock update\", or build with --browser debian", LockPath, key)
			}
		}
	} else {
		no(!releasePattern.MatchString(o.Release), "release is %q, expected a version like 1.2.3", o.Release)
		no(!revisionPattern.MatchString(o.Revision), "revision is %q, a release needs its commit, 40 digits", o.Revision)
		no(o.Cua == "standin", "a release has no stand-in for cua-driver")
		no(o.Browser == "debian", "a release has Playwright's Chromium, not Debian's")
		no(o.Base != "", "a release begins with the base that %s pins, not with %s", LockPath, o.Base)
		for _, key := range missing {
			no(true, "%s: %s is unresolved; run \"images lock update\" where the network allows it", LockPath, key)
		}
	}
	if why == nil {
		return nil
	}
	return &RefusedError{why}
}

// standIns names what o puts in the place of a release's parts.
func (o BuildOptions) standIns() []string {
	out := []string{}
	if o.Cua == "standin" {
		out = append(out, "cua-driver")
	}
	if o.Browser == "debian" {
		out = append(out, "chromium")
	}
	return out
}

// Build builds the image with the engine, settles its config, and gives it back to the engine
// under its name: what is tagged then, and what the layout holds, has one ID. Progress is
// lines for people.
func Build(ctx context.Context, e *Engine, l Lock, o BuildOptions, progress io.Writer) (b Built, err error) {
	if err := l.Refuse(o); err != nil {
		return b, err
	}
	begin := time.Now()
	dockerfile, data, args, err := o.recipe(l)
	if err != nil {
		return b, err
	}
	if args["BASE"], err = base(ctx, e, l, o.Base, progress); err != nil {
		return b, err
	}
	set := func(name, value string) {
		if value != "" {
			args[name] = value
		}
	}
	if o.Program == "" {
		set("BROWSER", o.Browser)
		set("CUA", o.Cua)
	}
	set("VERSION", o.Release)
	set("REVISION", o.Revision)
	req := buildRequest{dockerfile: dockerfile, context: bytes.NewReader(data), args: args, tag: o.Tag, noCache: o.NoCache, kit: o.Builder == "buildkit"}
	if o.Cache != "" {
		var m *mirror
		if m, err = newMirror(ctx, o.Cache); err != nil {
			return b, err
		}
		defer func() {
			err = errors.Join(err, m.Close())
			if n := m.lost.Load(); n > 0 {
				err = errors.Join(err, say(progress, fmt.Sprintf("%d files did not arrive whole and were not kept in %s", n, o.Cache)))
			}
		}()
		// Only the constant address is an input of the build; proxies are no part of a layer's key.
		args["NPM_REGISTRY"], args["http_proxy"], req.network = "http://"+npmHost, m.addr, "host"
	}
	id, err := e.build(ctx, req, progress)
	if err != nil {
		return b, err
	}
	b = Built{Tag: o.Tag, StandIns: o.standIns()}
	if err := b.settle(ctx, e, l, o, id, progress); err != nil {
		return b, err
	}
	b.Seconds = time.Since(begin).Seconds()
	return b, nil
}

// settle exports the image that the engine built and puts the settled one in its place.
func (b *Built) settle(ctx context.Context, e *Engine, l Lock, o BuildOptions, id string, progress io.Writer) (err error) {
	if err := say(progress, "exporting", id); err != nil {
		return err
	}
	archive, err := e.save(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	if b.Exported, err = export(ctx, archive, l.Created(), o.Layout, o.Tag); err != nil {
		return err
	}
	if err := b.load(ctx, e, o.Tag, o.Layout); err != nil {
		return fmt.Errorf("give %s back to the engine: %w (with --output an engine can be given all layers)", b.ID, err)
	}
	got, err := e.Image(ctx, o.Tag)
	if err != nil {
		return err
	}
	if o.NoCache && id != got.ID {
		// Nothing will build on it. Other builds keep what the engine made, as their cache.
		if err := e.Untag(ctx, id); err != nil {
			return err
		}
	}
	b.Arch = got.Arch
	if b.Packages, err = e.Packages(ctx, o.Tag); err != nil {
		return err
	}
	if o.Program != "" {
		return nil // the lock records the sandbox's
	}
	b.Drift = l.drift(b.Arch, b.Packages)
	if o.Release != "" && len(b.Drift) > 0 {
		return &RefusedError{append([]string{"its packages are not those that " + LockPath + " records:"}, b.Drift...)}
	}
	return nil
}

// base returns the image to begin with, which the engine has then.
func base(ctx context.Context, e *Engine, l Lock, wanted string, progress io.Writer) (string, error) {
	if wanted == "" {
		wanted = l.Base.pinned()
	}
	if info, err := os.Stat(wanted); err == nil && info.Mode().IsRegular() {
		return importBase(ctx, e, wanted, progress)
	}
	_, err := e.Image(ctx, wanted)
	if errors.Is(err, ErrNoImage) {
		err = e.Pull(ctx, wanted, progress)
	}
	return wanted, err
}

// importBase makes an image of a root filesystem, named after its content.
func importBase(ctx context.Context, e *Engine, path string, progress io.Writer) (ref string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	ref = "hermes-appliance/base:" + hex.EncodeToString(h.Sum(nil))[:16]
	if _, err := e.Image(ctx, ref); !errors.Is(err, ErrNoImage) {
		return ref, err
	}
	if err := say(progress, "importing", filepath.Base(path), "as", ref); err != nil {
		return "", err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	return ref, e.Import(ctx, io.MultiReader(f), ref) // the client would close a file
}

// drift compares packages with those recorded for an architecture. Nothing recorded is no
// difference.
func (l Lock) drift(arch string, packages map[string]string) []string {
	recorded := l.Apt.Packages[arch]
	if recorded == nil {
		return nil
	}
	names := map[string]bool{}
	for name := range recorded {
		names[name] = true
	}
	for name := range packages {
		names[name] = true
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := recorded[name], packages[name]
		switch {
		case was == is:
		case was == "":
			out = append(out, fmt.Sprintf("%s %s is new", name, is))
		case is == "":
			out = append(out, fmt.Sprintf("%s %s is gone", name, was))
		default:
			out = append(out, fmt.Sprintf("%s %s was %s", name, is, was))
		}
	}
	return out
}
