// SPDX-License-Identifier: MIT

package images

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func b64(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

func named(name string) Digest {
	if name == "" {
		return ""
	}
	return DigestOf([]byte(name))
}

func TestRollingMoves(t *testing.T) {
	t.Parallel()
	h := func(names ...string) (h history) {
		for _, n := range names {
			h.last++
			h.entries = append(h.entries, named(n))
		}
		return h
	}
	tests := []struct {
		cur, curVersion, next, version string
		h                              history
		replacing                      string
		moves                          bool
		want                           error
	}{
		{cur: "", next: "a", version: "1.0.0", moves: true},
		{cur: "a", curVersion: "1.0.0", next: "a", version: "1.0.0"},
		{cur: "a", curVersion: "1.0.0", next: "b", version: "1.0.1", moves: true},
		{cur: "a", curVersion: "1.9.0", next: "b", version: "1.10.0", moves: true}, // not as text
		{cur: "a", curVersion: "2026.11.30", next: "b", version: "2026.12.1", moves: true},
		{cur: "a", curVersion: "v1.0.0", next: "b", version: "1.0.1", moves: true},
		{cur: "a", curVersion: "1.0.0", next: "b", version: "v1.0.1", moves: true},
		{cur: "a", curVersion: "1.0.0-rc.1", next: "b", version: "1.0.0", moves: true},   // made by hand
		{cur: "a", curVersion: "1.0.0", next: "b", version: "1.0.0", want: ErrBackwards}, // same version, other bytes
		{cur: "a", curVersion: "1.0.1", next: "b", version: "1.0.0", want: ErrBackwards},
		{cur: "a", curVersion: "2.0.0", next: "b", version: "1.99.99", want: ErrBackwards},
		{cur: "a", curVersion: "2.0.0-rc.1", next: "b", version: "1.99.99", want: ErrBackwards},
		{cur: "a", curVersion: "1.0.0", next: "b", version: "1.1.0-rc.1", want: ErrPrerelease},
		{cur: "", next: "b", version: "1.1.0-0", want: ErrPrerelease},
		{cur: "a", curVersion: "", next: "b", version: "1.0.0", want: ErrUnknown},
		{cur: "a", curVersion: "main", next: "b", version: "1.0.0", want: ErrUnknown},
		{cur: "a", curVersion: "1.0", next: "b", version: "1.0.1", want: ErrUnknown},
		{cur: "a", curVersion: "", next: "b", version: "1.0.0", replacing: "a", moves: true},
		{cur: "a", curVersion: "", next: "b", version: "1.0.0", replacing: "c", want: ErrUnknown},
		{cur: "a", curVersion: "2.0.0", next: "b", version: "1.0.0", replacing: "a", want: ErrBackwards}, // replacing is no way back
		{cur: "a", curVersion: "1.0.0", next: "b", version: "1.1.0", h: h("a", "b", "a"), want: ErrWithdrawn},
		{cur: "a", curVersion: "1.0.0", next: "b", version: "1.1.0", h: h("a", "b"), moves: true}, // a crash before the move
		{cur: "a", curVersion: "1.0.0", next: "c", version: "1.2.0", h: h("a", "b", "a"), moves: true},
		{cur: "a", curVersion: "1.0.0", next: "b", version: "latest", want: nil},
	}
	for _, tt := range tests {
		name := fmt.Sprintf("%s %s to %s %s", tt.cur, tt.curVersion, tt.next, tt.version)
		moves, err := rollingMoves(standing{named(tt.cur), tt.curVersion}, named(tt.next), tt.version, tt.h, named(tt.replacing))
		if tt.version == "latest" {
			if err == nil {
				t.Errorf("%s: no error", name)
			}
			continue
		}
		if moves != tt.moves || !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
			t.Errorf("%s: got %t, %v; want %t, %v", name, moves, err, tt.moves, tt.want)
		}
	}
}

func TestReleaseMoves(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cur, next string
		moves     bool
		want      error
	}{
		{"", "a", true, nil}, {"a", "a", false, nil}, {"a", "b", false, ErrImmutable},
	} {
		moves, err := releaseMoves(standing{digest: named(tt.cur)}, named(tt.next))
		if moves != tt.moves || !errors.Is(err, tt.want) {
			t.Errorf("%q to %q: got %t, %v", tt.cur, tt.next, moves, err)
		}
	}
}

func TestCheckTags(t *testing.T) {
	t.Parallel()
	tests := []struct {
		tags, version string
		want          string // "" = refused
	}{
		{"desktop", "1.0.0", "1.0.0-desktop desktop"},
		{"desktop 1.0.0-desktop", "1.0.0", "1.0.0-desktop desktop"},
		{"1.0.0-desktop", "1.0.0", "1.0.0-desktop"},
		{"v1.0.0-desktop desktop", "v1.0.0", "v1.0.0-desktop desktop"},
		{"1.0.0-rc.1-desktop", "1.0.0-rc.1", "1.0.0-rc.1-desktop"},
		{"desktop", "1.0.0-rc.1", ""},
		{"1.0.1-desktop", "1.0.0", ""},
		{"latest", "1.0.0", "1.0.0 latest"},
		{"1.0.0", "1.0.0", "1.0.0"},
		{"1.0.0-rc.1", "1.0.0-rc.1", "1.0.0-rc.1"},
		{"latest", "1.0.0-rc.1", ""},
		{"latest desktop", "1.0.0", ""},
		{"latest 1.0.0-desktop", "1.0.0", ""},
		{"latest-history-0001", "1.0.0", ""},
		{"desktop-history-0001", "1.0.0", ""},
		{"sha256-0.sig", "1.0.0", ""},
		{"desktop", "1.0.0+build", ""},
		{"desktop", "1.0", ""},
		{"desktop", "01.0.0", ""},
		{"desktop", "", ""},
	}
	for _, tt := range tests {
		got, err := checkTags(strings.Fields(tt.tags), tt.version)
		if strings.Join(got, " ") != tt.want || (err != nil) != (tt.want == "") {
			t.Errorf("%q for version %q: got %q, %v; want %q", tt.tags, tt.version, got, err, tt.want)
		}
	}
	if got, err := checkTags(nil, "not a version"); got != nil || err != nil {
		t.Errorf("no tags: %v, %v", got, err)
	}
}

func TestHistory(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		log, stack, cur string
		steps           int
		want            string // "" = no earlier
	}{
		{"a b c", "a b c", "c", 1, "b"},
		{"a b c", "a b c", "c", 2, "a"},
		{"a b c", "a b c", "c", 3, ""},
		{"a b c b", "a b", "b", 1, "a"},
		{"a b c b d", "a b d", "d", 1, "b"}, // never back to the withdrawn c
		{"a b c b a", "a", "a", 1, ""},
		{"a b c", "a b c", "b", 1, "a"}, // a crash before c was current
		{"a b", "a b", "x", 1, "b"},     // moved by hand
		{"a b c b", "a b", "c", 1, "b"}, // a crash in going back
		{"", "", "x", 1, ""},
	} {
		h := history{}
		for n := range strings.FieldsSeq(tt.log) {
			h.entries = append(h.entries, named(n))
		}
		var want []Digest
		for n := range strings.FieldsSeq(tt.stack) {
			want = append(want, named(n))
		}
		if got := h.stack(); !slices.Equal(got, want) {
			t.Errorf("%q: stack %v, want %v", tt.log, got, want)
		}
		got, err := h.before(named(tt.cur), tt.steps)
		if got != named(tt.want) || (tt.want == "") != errors.Is(err, ErrNoHistory) {
			t.Errorf("%q, %d before %s: got %s, %v; want %q", tt.log, tt.steps, tt.cur, got, err, tt.want)
		}
	}
}

// TestReportDowngrade: a release that is run again must not take :desktop back
// (spec: "rolling tag can move backwards if an older release is re-run").
func TestReportDowngrade(t *testing.T) {
	t.Parallel()
	d := newDirectDesk(t, true)
	d.publish("1.0.0", RollingTag)
	two := d.publish("1.1.0", RollingTag)
	dir, _ := makeLayout(t, release("1.0.0")...)
	if _, err := d.Publish(t.Context(), d.options(load(t, dir), RollingTag)); !errors.Is(err, ErrBackwards) {
		t.Errorf("got %v, want %v", err, ErrBackwards)
	}
	if d.at(RollingTag) != two.Digest {
		t.Error("desktop moved")
	}
	// An older line still gets its own tag.
	d.publish("1.0.1", "1.0.1-desktop")
	if d.at(RollingTag) != two.Digest || d.at("1.0.1-desktop") == "" {
		t.Error("a release of an older line")
	}
	// The same version with other bytes is refused before anything is sent.
	other := release("1.1.0")
	other[0].layers[1] = []file{text("opt/app", "changed")}
	dir, _ = makeLayout(t, other...)
	d.faults(nil)
	if _, err := d.Publish(t.Context(), d.options(load(t, dir), "1.1.0-desktop")); !errors.Is(err, ErrImmutable) {
		t.Errorf("got %v, want %v", err, ErrImmutable)
	}
	if slices.ContainsFunc(d.requests(), func(r string) bool { return strings.HasPrefix(r, "P") }) {
		t.Errorf("sent: %v", d.requests())
	}
}

func TestRollback(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	back := func(steps int) (TagMove, error) {
		return d.client().Rollback(t.Context(), RollbackOptions{Tag: d.repo.WithTag(RollingTag), Steps: steps, Key: d.signer.Key()})
	}
	one, two, three := d.publish("1.0.0", RollingTag), d.publish("1.1.0", RollingTag), d.publish("1.2.0", RollingTag)
	if m, err := back(0); err != nil || m.From != three.Digest || m.To != two.Digest || d.at(RollingTag) != two.Digest {
		t.Fatalf("one back: %+v, %v", m, err)
	}
	d.want(RollingTag)
	if _, err := d.Publish(t.Context(), d.options(imagesOf(t, "1.2.0"), RollingTag)); !errors.Is(err, ErrWithdrawn) {
		t.Errorf("what was rolled back is published again: %v", err)
	}
	four := d.publish("1.3.0", RollingTag)
	if m, err := back(1); err != nil || m.To != two.Digest {
		t.Fatalf("back from a newer release: %+v, %v; want the one before it, not the withdrawn one", m, err)
	}
	five := d.publish("1.4.0", RollingTag)
	if m, err := back(2); err != nil || m.From != five.Digest || m.To != one.Digest {
		t.Fatalf("two back: %+v, %v", m, err)
	}
	if _, err := back(1); !errors.Is(err, ErrNoHistory) {
		t.Errorf("before the first: %v", err)
	}
	for _, p := range []*Published{one, two, three, four, five} {
		if _, err := d.Verify(t.Context(), VerifyOptions{Ref: d.repo.WithTag(ReleaseTag(p.Version)), Key: d.signer.Key()}); err != nil {
			t.Errorf("%s is not reachable any more: %v", p.Version, err)
		}
	}
	if _, err := d.Rollback(t.Context(), RollbackOptions{Tag: d.repo.WithTag("1.0.0-desktop"), Key: d.signer.Key()}); err == nil {
		t.Error("a release tag went back")
	}
	if _, err := d.Rollback(t.Context(), RollbackOptions{Tag: Ref{Name: "ghcr.io/nousresearch/hermes-sandbox", Tag: RollingTag}, Key: d.signer.Key()}); !errors.Is(err, ErrGuarded) {
		t.Errorf("production by hand: %v", err)
	}
	// What does not verify is not gone back to.
	d.publish("2.0.0", RollingTag)
	at := d.at(RollingTag)
	if _, err := d.Rollback(t.Context(), RollbackOptions{Tag: d.repo.WithTag(RollingTag), Key: newSigner(t).Key()}); !errors.Is(err, ErrWrongKey) || d.at(RollingTag) != at {
		t.Errorf("to what is not signed: %v", err)
	}
}

// TestLatest: the gateway's image has its own rolling tag, with its own history, and the sandbox's
// repository does not.
func TestLatest(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	one := d.publish("1.0.0", LatestTag)
	two := d.publish("1.1.0", LatestTag)
	if d.at("1.0.0") != one.Digest || d.at(LatestTag) != two.Digest || d.at("latest-history-0002") != two.Digest {
		t.Errorf("tags: %s, %s", d.at("1.0.0"), d.at(LatestTag))
	}
	m, err := d.client().Rollback(t.Context(), RollbackOptions{Tag: d.repo.WithTag(LatestTag), Key: d.signer.Key()})
	if err != nil || m.To != one.Digest || d.at(LatestTag) != one.Digest {
		t.Errorf("back: %+v, %v", m, err)
	}
	o := d.options(imagesOf(t, "1.2.0"), LatestTag)
	o.Repository, o.Run = Ref{Name: "docker.io/nousresearch/hermes-sandbox"}, Run{CI: true, Event: "release"}
	if _, err := d.Publish(t.Context(), o); err == nil || !strings.Contains(err.Error(), RollingTag) {
		t.Errorf("latest of the sandbox: %v", err)
	}
	o = d.options(imagesOf(t, "1.2.0"), RollingTag)
	o.Repository, o.Run = Ref{Name: "ghcr.io/hermes-appliance/hermes-appliance"}, Run{CI: true, Event: "push", Tag: true, Publish: true}
	if _, err := d.Publish(t.Context(), o); err == nil || !strings.Contains(err.Error(), LatestTag) {
		t.Errorf("desktop of the gateway: %v", err)
	}
}

func imagesOf(t *testing.T, version string) []*Image {
	t.Helper()
	dir, _ := makeLayout(t, release(version)...)
	return load(t, dir)
}

// TestTakeOver: a tag that others made, with no version on it, is replaced on an explicit
// word only, and stays reachable.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	foreign := []byte(`{"schemaVersion":2,"mediaType":"` + imageIndexType + `","manifests":[]}`)
	d.put(RollingTag, foreign, imageIndexType)
	o := d.options(imagesOf(t, "1.0.0"), RollingTag)
	if _, err := d.Publish(t.Context(), o); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "--replacing "+string(DigestOf(foreign))) {
		t.Fatalf("got %v, want %v with the way out", err, ErrUnknown)
	}
	o.Replacing = DigestOf(foreign)
	if _, err := d.Publish(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.want(RollingTag)
	if d.at("desktop-history-0001") != DigestOf(foreign) {
		t.Error("what was replaced is not kept")
	}
	// It cannot be gone back to: nobody signed it.
	if _, err := d.Rollback(t.Context(), RollbackOptions{Tag: d.repo.WithTag(RollingTag), Key: d.signer.Key()}); !errors.Is(err, ErrUnsigned) {
		t.Errorf("got %v, want %v", err, ErrUnsigned)
	}
}

// TestRace: somebody else moves the tag while we publish.
func TestRace(t *testing.T) {
	t.Parallel()
	d := newDirectDesk(t, true)
	d.publish("1.0.0", RollingTag)
	other := imagesOf(t, "3.0.0")
	o := d.options(imagesOf(t, "2.0.0"), RollingTag)
	p, err := d.prepare(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.client().Publish(t.Context(), d.options(other, RollingTag)); err != nil {
		t.Fatal(err)
	}
	if err := p.push(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := p.tag(t.Context()); !errors.Is(err, ErrBackwards) {
		t.Errorf("got %v, want %v", err, ErrBackwards)
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	release, dispatch := Run{CI: true, Event: "release"}, Run{CI: true, Event: "workflow_dispatch", Publish: true}
	for _, tt := range []struct {
		name string
		run  Run
		ok   bool
	}{
		{"nousresearch/hermes-sandbox", Run{}, false},
		{"index.docker.io/nousresearch/hermes-sandbox", Run{}, false},
		{"ghcr.io/nousresearch/hermes-sandbox", Run{}, false},
		{"localhost:5000/nousresearch/hermes-sandbox", Run{}, false},
		{"mirror.example/hub/nousresearch/hermes-sandbox", Run{}, false},
		{"nousresearch/hermes-sandbox", release, true},
		{"nousresearch/hermes-sandbox", dispatch, true},
		{"nousresearch/hermes-sandbox", Run{Event: "release", Publish: true}, false},
		{"nousresearch/hermes-sandbox", Run{CI: true, Event: "workflow_dispatch"}, false},
		{"nousresearch/hermes-sandbox", Run{CI: true, Event: "push", Publish: true}, false},
		{"nousresearch/hermes-sandbox", Run{CI: true, Event: "pull_request", Publish: true}, false},
		{"nousresearch/hermes-sandbox", Run{CI: true}, false},
		{"ghcr.io/hermes-appliance/hermes-appliance", Run{}, false},
		{"mirror.example/hub/hermes-appliance/hermes-appliance", Run{}, false},
		{"ghcr.io/hermes-appliance/hermes-appliance", Run{Named: "ghcr.io/hermes-appliance/hermes-appliance"}, false},
		{"ghcr.io/hermes-appliance/hermes-appliance", release, false},
		{"ghcr.io/hermes-appliance/hermes-appliance", Run{CI: true, Event: "push", Publish: true}, false},
		{"ghcr.io/hermes-appliance/hermes-appliance", Run{CI: true, Event: "push", Tag: true}, false},
		{"ghcr.io/hermes-appliance/hermes-appliance", Run{CI: true, Event: "push", Tag: true, Publish: true}, true},
		{"ghcr.io/hermes-appliance/hermes-appliance", dispatch, true},
		{"ghcr.io/me/hermes-appliance", Run{}, true},
		{"me/hermes-sandbox", Run{}, true},
		{"nousresearch/hermes-sandbox-test", Run{}, true},
		{"localhost:5000/not-nousresearch/hermes-sandbox", Run{}, true},
	} {
		ref, err := ParseRepository(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.run.Guard(ref); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrGuarded) {
			t.Errorf("%s in %+v: %v", tt.name, tt.run, err)
		}
	}
}

// TestGuardBack: a rollback by hand must name the production repository twice.
func TestGuardBack(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ghcr.io/hermes-appliance/hermes-appliance", "docker.io/nousresearch/hermes-sandbox"} {
		repo := Ref{Name: name}
		for run, ok := range map[Run]bool{
			{}: false, {Publish: true, Named: "true"}: false, {Named: name}: true, {Named: name + "x"}: false,
			{CI: true, Event: "pull_request", Named: name}: false, {CI: true, Event: "workflow_dispatch", Publish: true}: true,
		} {
			err := run.GuardBack(repo)
			if (err == nil) != ok || err != nil && (!errors.Is(err, ErrGuarded) || !strings.Contains(err.Error(), "HERMES_IMAGES_PUBLISH="+name)) {
				t.Errorf("%s in %+v: %v", name, run, err)
			}
		}
	}
}
