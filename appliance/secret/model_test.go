// SPDX-License-Identifier: MIT

package secret

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// The model is written from the rules, not from the code: plain maps, no layers, no cache.

type modelSource struct {
	name     string
	enabled  bool
	plugin   bool
	override bool
	world    map[string]string // what the vault has
	mode     string            // ok, fail, hang, unset
	last     map[string]string // what was published of it; nil = nothing
	src      *script
}

type modelHome struct {
	profile    string
	file       map[string]string
	unreadable bool
	broken     bool // config error
	sources    []*modelSource
	applied    bool
	failed     bool // and to be tried again
	hadPlugin  bool

	scope   *Scope // a task that goes on
	own     map[string]string
	applies map[string]string // K -> "value" the sources supply to that task, by precedence
	over    map[string]bool
}

type model struct {
	t       *testing.T
	d       *desk
	r       *rand.Rand
	homes   []*modelHome
	process map[string]string
	frozen  bool
	n       int
	ops     []string
}

func names() []string { return []string{"K0", "K1", "K2", "K3", "K4"} }

func (m *model) values(h *modelHome, origin string) map[string]string {
	out := map[string]string{}
	for _, k := range names() {
		if m.r.IntN(2) == 0 {
			m.n++
			out[k] = fmt.Sprintf("%s:%s:%d", h.profile, origin, m.n)
		}
	}
	return out
}

// publish is what Load and Refresh do to the published values.
func (h *modelHome) publish() bool {
	active := slices.ContainsFunc(h.sources, func(s *modelSource) bool { return s.enabled })
	if h.broken || active && h.unreadable {
		return false
	}
	h.applied, h.failed, h.hadPlugin = true, false, false
	for _, s := range h.sources {
		switch {
		case !s.enabled:
			s.last = nil
			continue
		case s.mode == "ok":
			s.last = maps.Clone(s.world)
		case s.mode == "unset":
			s.last = nil
		default:
			h.failed = true
		}
		h.hadPlugin = h.hadPlugin || s.plugin
	}
	return true
}

func (h *modelHome) load() {
	if !h.applied || h.failed {
		h.publish()
	}
}

// supplied returns the winner of each name.
func (h *modelHome) supplied() (values map[string]string, over map[string]bool) {
	values, over = map[string]string{}, map[string]bool{}
	for _, s := range h.sources {
		for k, v := range s.last {
			if _, ok := values[k]; !ok {
				values[k], over[k] = v, s.override
			}
		}
	}
	return values, over
}

func (m *model) want(h *modelHome, own, supplied map[string]string, over map[string]bool) map[string]string {
	launch := h.profile == home.Default
	out := map[string]string{}
	if launch && m.frozen {
		maps.Copy(out, m.process)
	}
	maps.Copy(out, own)
	for k, v := range supplied {
		has := own[k] != "" || launch && m.process[k] != ""
		if !has || over[k] {
			out[k] = v
		}
	}
	return out
}

func (h *modelHome) readable() map[string]string {
	if h.unreadable {
		return map[string]string{}
	}
	return h.file
}

func (h *modelHome) refresh() {
	if !h.publish() {
		return
	}
	h.applies, h.over = h.supplied()
	if !h.unreadable {
		h.own = maps.Clone(h.file)
	}
}

func (m *model) check(h *modelHome, what string, sc *Scope, want map[string]string) {
	m.t.Helper()
	got := map[string]string{}
	for _, v := range sc.Values() {
		got[v.Name] = v.Text.Reveal()
		if owner, _, _ := strings.Cut(v.Text.Reveal(), ":"); owner != h.profile && owner != "process" && v.Text.Reveal() != "" && !strings.HasPrefix(h.profile, owner) {
			m.t.Errorf("%s has a foreign value %s", h.profile, v.Text.Reveal())
		}
		if v.Origin.Home != home.Key(m.d.home(h.profile).Dir) {
			m.t.Errorf("%s has a value of %s", h.profile, v.Origin.Home)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		m.t.Fatalf("%s of %s after\n%s\n(-want +got):\n%s", what, h.profile, strings.Join(m.ops, "\n"), diff)
	}
}

// writeFile brings a .env to the disk in one of several ways.
func (m *model) writeFile(h *modelHome, text string) {
	path := m.d.home(h.profile).Env()
	_ = os.RemoveAll(path)
	h.unreadable = false
	m.n++
	switch m.r.IntN(3) {
	case 0:
		m.d.dotenv(h.profile, text)
	case 1: // replaced, as editors do
		write(m.t, path+"~", text)
		m.d.touch(path + "~")
		if err := os.Rename(path+"~", path); err != nil {
			m.t.Fatal(err)
		}
	default: // a link that is swapped
		target := filepath.Join(filepath.Dir(path), fmt.Sprintf("env.%d", m.n))
		write(m.t, target, text)
		m.d.touch(target)
		symlink(m.t, target, path)
	}
}

func (m *model) edit(h *modelHome) {
	h.file = m.values(h, "env")
	var b strings.Builder
	for _, k := range sorted(h.file) {
		fmt.Fprintf(&b, "%s=%s\n", k, h.file[k])
	}
	text := b.String()
	if m.r.IntN(4) == 0 { // half-written
		text = text[:m.r.IntN(len(text)+1)]
		h.file = map[string]string{}
		for line := range strings.SplitSeq(text, "\n") {
			if k, v, ok := strings.Cut(line, "="); ok {
				h.file[k] = v
			}
		}
	}
	m.writeFile(h, text)
}

func (m *model) spoil(h *modelHome) {
	path := m.d.home(h.profile).Env()
	_ = os.RemoveAll(path)
	h.unreadable = true
	switch m.r.IntN(3) {
	case 0:
		symlink(m.t, path, path)
	case 1:
		write(m.t, filepath.Join(path, "x"), "")
	default:
		h.unreadable, h.file = false, map[string]string{} // missing is no error
	}
}

func (m *model) turn(s *modelSource) {
	s.src.with(func(x *script) {
		x.values, x.err, x.hang = maps.Clone(s.world), nil, false
		x.spec.Enabled, x.spec.OverrideExisting = s.enabled, s.override
		x.spec.Budget = time.Hour
		switch s.mode {
		case "fail":
			failing(Network)(x)
		case "unset":
			failing(NotConfigured)(x)
		case "hang":
			x.hang, x.spec.Budget = true, time.Millisecond
		}
	})
}

func (m *model) step() {
	h := m.homes[m.r.IntN(len(m.homes))]
	s := h.sources[m.r.IntN(len(h.sources))]
	op := m.r.IntN(16)
	m.d.wait(time.Hour) // more than the longest pause between tries
	m.ops = append(m.ops, fmt.Sprintf("%s %s op %d mode %s enabled %v unreadable %v broken %v", h.profile, s.name, op, s.mode, s.enabled, h.unreadable, h.broken))
	tenant := m.d.tenant(h.profile)
	switch op {
	case 0, 1, 2:
		m.edit(h)
	case 3:
		m.spoil(h)
	case 4, 5: // add, remove, rotate
		s.world = m.values(h, s.name)
	case 6, 7:
		s.mode = []string{"ok", "ok", "fail", "hang", "unset"}[m.r.IntN(5)]
	case 8:
		s.enabled = !s.enabled
	case 9:
		h.broken = !h.broken
		m.d.broken[h.profile] = nil
		if h.broken {
			m.d.broken[h.profile] = errors.New("broken")
		}
	case 10, 11, 12:
		h.refresh()
		_, _ = m.d.Refresh(m.t.Context(), tenant)
	case 13:
		has := slices.ContainsFunc(h.sources, func(s *modelSource) bool { return s.enabled && s.plugin })
		if !h.broken && (has || h.hadPlugin) {
			h.refresh()
		}
		_, _ = m.d.Discovered(m.t.Context(), tenant)
	case 14:
		k := names()[m.r.IntN(5)]
		m.n++
		h.own = maps.Clone(h.own)
		if m.r.IntN(2) == 0 {
			h.own[k] = fmt.Sprintf("%s:set:%d", h.profile, m.n)
			h.scope.Set(k, Wrap(h.own[k]))
		} else {
			delete(h.own, k)
			h.scope.Unset(k)
		}
	default:
		if m.r.IntN(8) == 0 {
			m.frozen = true
			m.d.Freeze()
		}
	}
	m.turn(s)
	for _, h := range m.homes {
		m.look(h)
	}
}

// look compares the scope of a new task and that of the one that goes on.
func (m *model) look(h *modelHome) {
	h.load()
	supplied, over := h.supplied()
	sc := m.d.scope(h.profile)
	m.check(h, "new scope", sc, m.want(h, h.readable(), supplied, over))
	if h.scope == nil || m.r.IntN(10) == 0 {
		h.scope, h.own, h.applies, h.over = sc, maps.Clone(h.readable()), supplied, over
	}
	m.check(h, "scope of a task", h.scope, m.want(h, h.own, h.applies, h.over))
}

func newModel(t *testing.T, seed uint64) *model {
	t.Helper()
	m := &model{t: t, d: newDesk(t, "bot", "cat"), r: rand.New(rand.NewPCG(seed, 0)), process: map[string]string{"K0": "process:0", "K3": "process:3"}}
	m.d.env = maps.Clone(m.process)
	for _, p := range []string{home.Default, "bot", "cat"} {
		h := &modelHome{profile: p, file: map[string]string{}}
		var all []Source
		for i, name := range []string{"mapped", "plug", "bulk"} {
			s := &modelSource{name: name, plugin: name == "plug", enabled: m.r.IntN(2) == 0, override: m.r.IntN(2) == 0, mode: "ok"}
			s.world = m.values(h, name)
			s.src = source(name, Shape(min(i, 1)), nil)
			s.src.spec.Plugin = s.plugin
			for _, k := range names() {
				s.src.spec.Refs[k] = "ref://" + k
			}
			m.turn(s)
			h.sources = append(h.sources, s)
			all = append(all, s.src)
		}
		m.d.sources(p, all...)
		m.homes = append(m.homes, h)
	}
	for _, h := range m.homes {
		m.look(h)
	}
	return m
}

// TestModel holds random sequences of what happens to homes against the model: no foreign value,
// no own value lost for good, and every failure as documented.
func TestModel(t *testing.T) {
	t.Parallel()
	runs := 20
	if testing.Short() {
		runs = 5
	}
	base := uint64(time.Now().UnixNano())
	for i := range runs {
		seed := base + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
			for range 60 {
				m.step()
			}
			m.recover()
			for _, mark := range []string{":env:", ":mapped:", ":plug:", ":bulk:", ":set:", "process:"} {
				if strings.Contains(m.d.logged(), mark) {
					t.Errorf("a value was logged (%s)", mark)
				}
			}
			runtime.KeepAlive(m)
		})
	}
}

// recover repairs everything: then every home has all that is its own.
func (m *model) recover() {
	m.ops = append(m.ops, "recover")
	for _, h := range m.homes {
		h.broken = false
		delete(m.d.broken, h.profile)
		m.edit(h)
		for _, s := range h.sources {
			s.mode, s.enabled = "ok", true
			m.turn(s)
		}
		h.refresh()
		if _, err := m.d.Refresh(m.t.Context(), m.d.tenant(h.profile)); err != nil {
			m.t.Fatal(err)
		}
		m.look(h)
		for _, k := range names() {
			_, has := h.file[k]
			for _, s := range h.sources {
				_, more := s.world[k]
				has = has || more
			}
			if _, ok := h.scope.Lookup(k); has && !ok && (h.profile != home.Default || m.process[k] == "") {
				m.t.Errorf("%s lost %s for good", h.profile, k)
			}
		}
	}
}
