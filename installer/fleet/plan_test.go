// SPDX-License-Identifier: MIT

package fleet

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func kinds(fs []Finding) []string {
	out := []string{}
	for _, f := range fs {
		if f.Kind != "new-profiles" {
			out = append(out, f.Kind+" "+f.Profile)
		}
	}
	return out
}

// TestRefusalsAndNotices: every blocker and every notice of the way to one gateway, for a person
// and for an updater, who has nobody to ask.
func TestRefusalsAndNotices(t *testing.T) {
	t.Parallel()
	sys, usr := Service{"systemd", true}, Service{"systemd", false}
	token := func(origin string) Facts {
		return Facts{Claims: []Claim{{"telegram", "f1", "TELEGRAM_BOT_TOKEN", origin}}}
	}
	type row struct {
		fleet    string
		change   func(w *world)
		action   Action
		blockers []string
		notices  []string
		auto     []string // blockers of an automatic run; nil = the same
		says     string   // in the first blocker, or else the first notice
	}
	for name, r := range map[string]row{
		"fine": {"user units", nil, Migrate, nil, nil, nil, ""},
		"duplicate credential": {"user units", func(w *world) {
			w.facts = map[string]Facts{"work": token("work/.env"), "fun": token("fun/.env"), "default": {}}
		}, Migrate, []string{"duplicate-credential work"}, nil, nil, "profiles fun and work hold the same telegram credential: TELEGRAM_BOT_TOKEN of fun in fun/.env, TELEGRAM_BOT_TOKEN of work in work/.env"},
		"the default claims first": {"user units", func(w *world) {
			w.facts = map[string]Facts{"work": token("work/.env"), "default": token("home/.env")}
		}, Migrate, []string{"duplicate-credential work"}, nil, nil, "profiles default and work"},
		"the environment's side is named": {"user units", func(w *world) {
			w.facts = map[string]Facts{"work": token("work/.env"), "default": token(FromEnvironment)}
		}, Migrate, []string{"duplicate-credential work"}, nil, nil, "of default in the environment of this command, TELEGRAM_BOT_TOKEN of work in work/.env; unset TELEGRAM_BOT_TOKEN where this command runs"},
		"one profile's own twice": {"user units", func(w *world) {
			f := token("x")
			f.Claims = append(f.Claims, f.Claims...)
			w.facts = map[string]Facts{"work": f}
		}, Migrate, nil, nil, nil, ""},
		"other credential, other platform": {"user units", func(w *world) {
			w.facts = map[string]Facts{"work": token("x"), "fun": {Claims: []Claim{{"discord", "f1", "K", "x"}, {"telegram", "f2", "K", "x"}}}}
		}, Migrate, nil, nil, nil, ""},
		"listener without a prefix": {"user units", func(w *world) {
			w.facts = map[string]Facts{"work": {Listeners: []Listener{{Platform: "sms"}}}}
		}, Migrate, []string{"listener work"}, nil, nil, "answers nothing below /p/work/; set platforms.sms.enabled: false there"},
		"listeners that move": {"user units", func(w *world) {
			w.facts = map[string]Facts{
				"default": {Listeners: []Listener{{"api_server", "127.0.0.1", 8700, true}}},
				"work":    {Listeners: []Listener{{"api_server", "127.0.0.1", 8643, true}, {"webhook", "0.0.0.0", 8645, true}}},
			}
		}, Migrate, nil, []string{"url work", "url work"}, nil, "moves to http://127.0.0.1:8700/p/work/v1/..."},
		"the default's own listeners": {"user units", func(w *world) {
			w.facts = map[string]Facts{"default": {Listeners: []Listener{{Platform: "sms"}}}}
		}, Migrate, nil, nil, nil, ""},
		"unreadable config": {
			"user units", func(w *world) { w.bad = map[string]error{"work": errors.New("line 3: no")} },
			Migrate,
			[]string{"unreadable work"},
			nil, nil, "line 3: no",
		},
		"flag that is managed": {
			"user units", func(w *world) { w.bad = map[string]error{"flag": errors.New("managed by nixos")} },
			Migrate,
			[]string{"flag default"},
			nil, nil, "managed by nixos",
		},
		"system units without root": {
			"default detached", func(w *world) { w.notOK = map[Service]error{sys: errors.New("need root")} },
			Migrate,
			[]string{"manager "},
			nil, nil, "systemd (system): need root",
		},
		"account of the new unit (H#110850)": {
			"default detached", func(w *world) { w.account = errors.New("nobody") },
			Migrate,
			[]string{"account default"},
			nil, nil, "no account to run as: nobody",
		},
		"account that nothing needs": {"user units", func(w *world) { w.account = errors.New("nobody") }, Migrate, nil, nil, nil, ""},
		"inside a profile's gateway (H#109473)": {
			"user units", func(w *world) { w.inside = []string{"work"} },
			Migrate,
			[]string{"inside work"},
			nil, nil, "run it from a shell of your own",
		},
		"inside the default gateway": {"user units", func(w *world) { w.inside = []string{"default"} }, Migrate, nil, nil, nil, ""},
		"foreign unit (H#107727)": {
			"user units", func(w *world) { w.foreign = "it is a link to /nix/store/x" },
			Migrate,
			[]string{"foreign-unit fun", "foreign-unit work"},
			nil, nil, "not this program's to remove: it is a link to /nix/store/x",
		},
		"unit of another installation": {
			"user units", func(w *world) { w.pinned = map[string]string{"work": w.dir} },
			Migrate,
			[]string{"other-home work"},
			[]string{"runtime-home work"},
			[]string{"other-home work", "runtime-home work"},
			"belongs to another installation",
		},
		"unit of a home that is gone": {
			"user units", func(w *world) { w.pinned = map[string]string{"work": "/gone/away"} },
			Migrate, nil,
			[]string{"runtime-home work"},
			[]string{"runtime-home work"},
			"runs the home /gone/away",
		},
		"process of another user": {
			"detached", func(w *world) { w.uid, w.owner = 1000, map[string]*int{"work": new(1001)} },
			Migrate,
			[]string{"process work"},
			[]string{"user work"},
			[]string{"process work", "user work"},
			"belongs to user 1001",
		},
		"root may end it": {
			"detached", func(w *world) { w.owner = map[string]*int{"work": new(1001)} },
			Migrate, nil,
			[]string{"user work"},
			[]string{"user work"},
			"runs as user 1001, the default one as 0",
		},
		"whose it is cannot be told": {"default detached", func(w *world) {
			w.save(w.unit("work", "system")+".state", unitState{Account: "nobody-knows"})
			w.must(w.StopProcess(t.Context(), w.home("work")))
		}, Migrate, nil, []string{"user work"}, []string{"user work"}, `cannot be told (account "nobody-knows")`},
		"two units of one profile": {"both scopes", nil, Migrate, nil, []string{"many-units work"}, []string{"many-units work"}, "more than one unit"},
		"another manager than the default's": {"user units", func(w *world) {
			w.must(w.Uninstall(t.Context(), w.home("work"), usr))
			w.must(w.Install(t.Context(), w.home("work"), sys, "ada", nil))
		}, Migrate, nil, []string{"manager-differs work"}, []string{"manager-differs work"}, "runs under systemd (system), the one gateway will under systemd (user)"},
		"host that cannot": {"user units", func(w *world) { w.refusal = "restart the container" }, Migrate, []string{"host "}, nil, nil, "restart the container"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fleets()[r.fleet])
			if r.change != nil {
				r.change(w)
			}
			before := testkit.ReadTree(t, w.dir)
			p, _, err := w.apply(t.Context(), func(o Observed) Plan {
				p := multiplex(o)
				auto := o.Multiplex(true)
				want := r.auto
				if want == nil {
					want = append([]string{}, r.blockers...)
				}
				if got := kinds(auto.Blockers); !reflect.DeepEqual(got, want) {
					t.Errorf("automatic: blockers %v, want %v", got, want)
				}
				p.Blockers = append([]Finding{{Kind: "stop here"}}, p.Blockers...) // nothing is carried out
				return p
			})
			if _, ok := errors.AsType[*BlockedError](err); !ok {
				t.Fatal(err)
			}
			p.Blockers = p.Blockers[1:]
			if got := kinds(p.Blockers); !reflect.DeepEqual(got, append([]string{}, r.blockers...)) {
				t.Errorf("blockers %v, want %v", got, r.blockers)
			}
			if got := kinds(p.Notices); !reflect.DeepEqual(got, append([]string{}, r.notices...)) {
				t.Errorf("notices %v, want %v", got, r.notices)
			}
			if p.Action != r.action {
				t.Errorf("action %s, want %s", p.Action, r.action)
			}
			if first := append(append([]Finding{}, p.Blockers...), p.Notices...); r.says != "" && !strings.Contains(first[0].String(), r.says) {
				t.Errorf("it says %q, not %q", first[0], r.says)
			}
			if !reflect.DeepEqual(before, testkit.ReadTree(t, w.dir)) {
				t.Error("a refusal changed the tree")
			}
		})
	}
}

// TestNothingToDo: cases in which a command is content with what there is.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		seeds  map[string]seed
		config string
		auto   bool
		want   Action
		kind   string
	}{
		"one profile":                        {map[string]seed{"default": {user: true}}, "a: 1\n", false, Nothing, "one-profile"},
		"flag on":                            {fleets()["default alone"], flagLine + "true}\n", false, Nothing, "already"},
		"flag on, gateways beside":           {fleets()["user units"], flagLine + "true}\n", false, Migrate, "new-profiles"},
		"no gateways, asked for":             {fleets()["default alone"], "a: 1\n", false, Migrate, "new-profiles"},
		"no gateways, automatic":             {fleets()["default alone"], "a: 1\n", true, Nothing, "no-gateways"},
		"report 18: opted out, automatic":    {fleets()["user units"], "gateway: {auto_multiplex_migration: false}\n", true, Nothing, "opted-out"},
		"report 18: opted out, but a person": {fleets()["user units"], "gateway: {auto_multiplex_migration: false}\n", false, Migrate, "new-profiles"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, row.seeds)
			w.put(w.root().Config(), row.config)
			o, err := w.fleet().Observe(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := o.Multiplex(row.auto)
			if p.Action != row.want || p.Blocked() || len(p.Notices) != 1 || p.Notices[0].Kind != row.kind {
				t.Errorf("%s, blockers %v, notices %v", p.Action, p.Blockers, p.Notices)
			}
			if (len(p.Steps) == 0) != (row.want == Nothing) {
				t.Errorf("steps %v", p.Steps)
			}
		})
	}
}

// TestReturnRefusals: what speaks against the way back.
func TestReturnRefusals(t *testing.T) {
	t.Parallel()
	sys := Service{"systemd", true}
	for name, row := range map[string]struct {
		fleet  string
		change func(w *world)
		want   string
	}{
		"no manifest": {"user units", func(w *world) { w.put(w.root().Config(), flagLine+"true}\n") }, "no-manifest "},
		"no root": {"default detached", func(w *world) {
			w.notOK = map[Service]error{sys: errors.New("need root")}
		}, "manager "},
		"host":                                  {"user units", func(w *world) { w.refusal = "no" }, "host "},
		"inside a unit that will go (H#109473)": {"default detached", func(w *world) { w.inside = []string{"default"} }, "inside default"},
		"inside a unit that stays":              {"user units", func(w *world) { w.inside = []string{"default"} }, ""},
		"process of another user": {"default detached", func(w *world) {
			w.uid, w.owner = 1000, map[string]*int{"default": new(0)}
		}, "process default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, fleets()[row.fleet])
			if row.want != "no-manifest " {
				if _, _, err := w.apply(t.Context(), multiplex); err != nil {
					t.Fatal(err)
				}
			}
			row.change(w)
			before := w.lasting(t)
			p, _, err := w.apply(t.Context(), standalone)
			if row.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if got := kinds(p.Blockers); len(got) != 1 || got[0] != row.want || err == nil {
				t.Errorf("blockers %v, want %q; %v", got, row.want, err)
			}
			if !reflect.DeepEqual(before, w.lasting(t)) {
				t.Error("a refusal changed something")
			}
		})
	}
}

// TestInterrupted: what counts as a migration that did not get to its end.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	m := &Manifest{Secondaries: []Profile{{Name: "work"}, {Name: "deleted"}}}
	def, work := Profile{Name: "default", PID: 7, Services: []Service{{"systemd", false}}}, Profile{Name: "work"}
	down := def
	down.PID = 0
	for name, row := range map[string]struct {
		o    Observed
		want bool
	}{
		"all served":                        {Observed{FlagOn: true, Manifest: m, Profiles: []Profile{def, work}, Served: []string{"default", "work"}}, false},
		"installed is no proof (H#110850)":  {Observed{FlagOn: true, Manifest: m, Profiles: []Profile{down, work}}, true},
		"it runs with the old config":       {Observed{FlagOn: true, Manifest: m, Profiles: []Profile{def, work}, Served: []string{"default"}}, true},
		"flag off":                          {Observed{Manifest: m, Profiles: []Profile{down, work}}, false},
		"no manifest":                       {Observed{FlagOn: true, Profiles: []Profile{down, work}}, false},
		"a later profile is not served yet": {Observed{FlagOn: true, Manifest: m, Profiles: []Profile{def, work, {Name: "new"}}, Served: []string{"default", "work"}}, false},
		"another process's word (H#109473)": {Observed{FlagOn: true, Manifest: m, Profiles: []Profile{def, work}, Served: nil}, true},
	} {
		if got := row.o.interrupted(); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// TestServed: the list counts only as the word of the process that runs.
func TestServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]seed{"default": {}})
	for text, want := range map[string][]string{
		`{"pid": 7, "writer_pid": 7, "served_profiles": ["default", "work"]}`: {"default", "work"},
		`{"writer_pid": 7, "served_profiles": ["default"]}`:                   {"default"},
		`{"pid": 8, "writer_pid": 8, "served_profiles": ["default", "work"]}`: nil,
		`{"pid": 7, "served_profiles": null}`:                                 nil,
		`{"pid": 7, "serv`:                                                    nil,
	} {
		w.put(statePath(w.root()), text)
		if got := served(w.root(), 7); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if got := served(w.root(), 0); got != nil {
		t.Errorf("nobody runs, and it says %v", got)
	}
}

// TestClearServedBytes: upstream's compact file and ours keep their form and their order.
func TestClearServedBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]seed{"default": {}})
	for before, want := range map[string]string{
		`{"z":1,"served_profiles":["default","work"],"platforms":{"telegram":{"a":1},"work:telegram":{},"working:x":2},"writer_pid":7,"a":"<&>"}`: `{"z":1,"served_profiles":[],"platforms":{"telegram":{"a":1},"working:x":2},"writer_pid":7,"a":"<&>"}`,
		"{\n  \"served_profiles\": [\n    \"work\"\n  ],\n  \"n\": 1.50\n}\n":                                                                     "{\n  \"served_profiles\": [],\n  \"n\": 1.50\n}\n",
		`{"platforms":7}`:  `{"platforms":7}`,
		`{"served_profi`:   `{"served_profi`,
		`["no object"]`:    `["no object"]`,
		"{\n  \"a\": 1\n}": "{\n  \"a\": 1\n}",
	} {
		w.put(statePath(w.root()), before)
		if err := w.fleet().clearServed([]string{"work"}); err != nil {
			t.Errorf("%s: %v", before, err)
		}
		if got := testkit.ReadTree(t, w.dir)["home/gateway_state.json"]; got != want {
			t.Errorf("%s:\n got %s\nwant %s", before, got, want)
		}
	}
}

func ExampleFinding() {
	fmt.Println(Finding{Message: "it is so", Fix: "do this"})
	// Output: it is so; do this
}
