// SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// fleetHome is a home with two profiles, and an environment in which nothing else is seen.
func fleetHome(t *testing.T, files map[string]string) (dir string, env map[string]string) {
	t.Helper()
	user := t.TempDir()
	dir = filepath.Join(user, "h")
	all := map[string]string{
		"config.yaml": "# top\n_config_version: 50\n", ".env": "", "profiles/work/config.yaml": "_config_version: 50\n", "profiles/fun/SOUL.md": "x",
	}
	maps.Copy(all, files)
	testkit.WriteTree(t, dir, all)
	return dir, map[string]string{"HOME": user, "HERMES_HOME": dir, "HERMES_MANAGED_DIR": filepath.Join(user, "admin")}
}

// fleetPlan runs a dry run and returns its plan. Every byte of the home must stay.
func fleetPlan(t *testing.T, env map[string]string, args ...string) (fleet.Plan, exitcode.Code, string) {
	t.Helper()
	before := testkit.ReadTree(t, env["HOME"])
	code, stdout, stderr := run(t, env, append([]string{"gateway", "migrate", "--dry-run", "--json"}, args...)...)
	if diff := cmp.Diff(before, testkit.ReadTree(t, env["HOME"])); diff != "" {
		t.Errorf("a dry run changed the home:\n%s", diff)
	}
	var doc struct {
		Exit   exitcode.Code
		Result struct {
			Plan   fleet.Plan
			Result *fleet.Result
		}
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || doc.Exit != code || doc.Result.Result != nil {
		t.Fatalf("exit %d: %v\n%s%s", code, err, stdout, stderr)
	}
	return doc.Result.Plan, code, stdout + stderr
}

func TestMigrateUsage(t *testing.T) {
	t.Parallel()
	_, env := fleetHome(t, nil)
	for _, args := range [][]string{nil, {"--multiplex", "--standalone"}, {"--standalone", "--auto"}} {
		if code, _, stderr := run(t, env, append([]string{"gateway", "migrate"}, args...)...); code != exitcode.Usage {
			t.Errorf("%v: exit %d, %s", args, code, stderr)
		}
	}
}

// TestMigrateFacts: what stands in the way is read from the profiles' own files, and no
// credential is ever shown.
func TestMigrateFacts(t *testing.T) {
	t.Parallel()
	const token = "1234567:very-secret-value"
	for name, row := range map[string]struct {
		files map[string]string
		env   map[string]string
		args  []string
		want  []string // kind and profile of the blockers
		says  string   // in a blocker or a notice
	}{
		"nothing": {nil, nil, nil, nil, ""},
		"variables": {
			map[string]string{".env": "TELEGRAM_BOT_TOKEN=" + token + "\n", "profiles/work/.env": "TELEGRAM_BOT_TOKEN='" + token + "'\n"},
			nil, nil,
			[]string{"duplicate-credential work"},
			"profiles default and work hold the same telegram credential: TELEGRAM_BOT_TOKEN of default in ",
		},
		"variable and config": {
			map[string]string{".env": "DISCORD_BOT_TOKEN=" + token + "\n", "profiles/work/config.yaml": "_config_version: 50\nplatforms: {discord: {enabled: true, token: \"${MY}\"}}\n", "profiles/work/.env": "MY=" + token + "\n"},
			nil, nil,
			[]string{"duplicate-credential work"},
			"token of work in ",
		},
		"extra of two profiles": {map[string]string{
			"profiles/fun/config.yaml":  "_config_version: 50\ngateway: {platforms: {feishu: {enabled: true, extra: {app_id: " + token + "}}}}\n",
			"profiles/work/config.yaml": "_config_version: 50\nplatforms: {feishu: {enabled: true, extra: {app_id: " + token + "}}}\n",
		}, nil, nil, []string{"duplicate-credential work"}, "app_id of fun"},
		"platform that is off":                    {map[string]string{".env": "TELEGRAM_BOT_TOKEN=" + token + "\n", "profiles/work/.env": "TELEGRAM_BOT_TOKEN=" + token + "\n", "profiles/work/config.yaml": "_config_version: 50\nplatforms: {telegram: {enabled: false}}\n"}, nil, nil, nil, ""},
		"the same key of the API is no duplicate": {map[string]string{".env": "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=" + token + "\n", "profiles/work/.env": "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=" + token + "\n"}, nil, nil, nil, "moves to http://127.0.0.1:8642/p/work/v1/..."},
		"API and webhook elsewhere": {map[string]string{
			"config.yaml": "_config_version: 50\ngateway: {api_server: {host: 10.0.0.1, extra: {port: 99}}}\nplatforms: {webhook: {port: 98}}\n", "profiles/work/.env": "WEBHOOK_ENABLED=yes\n",
		}, nil, nil, nil, "webhook moves to http://0.0.0.0:98/p/work/webhooks/<route>"},
		"port without a prefix": {map[string]string{"profiles/work/config.yaml": "_config_version: 50\nplatforms: {sms: {enabled: true}, feishu: {enabled: true}}\n"}, nil, nil, []string{"listener work"}, "sms"},
		"feishu that listens":   {map[string]string{"profiles/work/config.yaml": "_config_version: 50\nplatforms: {feishu: {enabled: true, extra: {connection_mode: webhook}}}\n"}, nil, nil, []string{"listener work"}, "feishu"},
		"unreadable config":     {map[string]string{"profiles/work/config.yaml": "a: [\n"}, nil, nil, []string{"unreadable work"}, "config.yaml"},
		"port that is none":     {map[string]string{"profiles/work/.env": "API_SERVER_PORT=many\n"}, nil, nil, []string{"unreadable work"}, `"many" is no port`},
		"default config older":  {map[string]string{"config.yaml": "_config_version: 47\n"}, nil, nil, []string{"flag default"}, "migrate --home"},
		"no config":             {map[string]string{"config.yaml": "a: [\n"}, nil, nil, []string{"unreadable default", "flag default"}, ""},
		"managed home":          {nil, map[string]string{"HERMES_MANAGED": "nixos"}, nil, []string{"flag default"}, "nixos"},
		"administrator": {
			map[string]string{"../admin/config.yaml": "gateway: {multiplex_profiles: false}\n"},
			nil, nil,
			[]string{"flag default"},
			"the administrator decides",
		},
		"variable that turns it off": {map[string]string{".env": "GATEWAY_MULTIPLEX_PROFILES=off\n"}, nil, nil, []string{"flag default"}, "turns it off, whatever the config says"},
		"malformed manifest":         {map[string]string{"gateway_migration.json": "{}"}, nil, nil, []string{"manifest "}, "version 1 of a manifest"},
		"a profile as the home":      {nil, nil, []string{"--home", "profiles/work"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := fleetHome(t, row.files)
			maps.Copy(env, row.env)
			args := slices.Clone(row.args)
			if len(args) == 2 {
				args[1] = filepath.Join(dir, args[1])
			}
			p, code, text := fleetPlan(t, env, append(args, "--multiplex")...)
			got := []string{}
			for _, b := range p.Blockers {
				got = append(got, b.Kind+" "+b.Profile)
			}
			if strings.Join(got, ",") != strings.Join(row.want, ",") || (code != exitcode.OK) != (len(row.want) > 0) {
				t.Errorf("exit %d, blockers %v, want %v\n%s", code, got, row.want, text)
			}
			if !strings.Contains(text, strings.ReplaceAll(row.says, `"`, `\"`)) {
				t.Errorf("it does not say %q:\n%s", row.says, text)
			}
			if strings.Contains(text, "very-secret") {
				t.Errorf("a credential is shown:\n%s", text)
			}
			if p.Home != dir {
				t.Errorf("the home is %s, not %s", p.Home, dir)
			}
		})
	}
}

// TestReport18_OptOut: H#110683. The key that is written is the key that is read, as text, too,
// and the administrator's word wins over the user's.
func TestReport18_OptOut(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		user, admin string
		want        string
	}{
		"off":                {"false", "", "opted-out"},
		"off as text":        {`"false"`, "", "opted-out"},
		"on":                 {"true", "", "no-gateways"},
		"unset":              {"", "", "no-gateways"},
		"administrator: off": {"true", "false", "opted-out"},
		"administrator: on":  {"false", "true", "no-gateways"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{}
			if row.user != "" {
				files["config.yaml"] = "_config_version: 50\ngateway: {auto_multiplex_migration: " + row.user + "}\n"
			}
			if row.admin != "" {
				files["../admin/config.yaml"] = "gateway: {auto_multiplex_migration: " + row.admin + "}\n"
			}
			_, env := fleetHome(t, files)
			p, code, text := fleetPlan(t, env, "--multiplex", "--auto")
			if code != exitcode.OK || p.Action != fleet.Nothing || len(p.Notices) != 1 || p.Notices[0].Kind != row.want {
				t.Errorf("exit %d\n%s", code, text)
			}
		})
	}
}

// TestMigrateFlag: the flag is an edit like that of config set: every other byte stays, the old
// key at the top goes, and what there was is brought back exactly.
func TestMigrateFlag(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ before, after string }{
		"no section":  {"# top\n_config_version: 50   # stamp\n\nmodel: {default: x}  # keep\n", "# top\n_config_version: 50   # stamp\n\nmodel: {default: x}  # keep\ngateway:\n  multiplex_profiles: true\n"},
		"section":     {"_config_version: 50\ngateway:   # mine\n  api_server:\n    port: 1\n", "_config_version: 50\ngateway:   # mine\n  api_server:\n    port: 1\n  multiplex_profiles: true\n"},
		"off already": {"_config_version: 50\ngateway:\n  multiplex_profiles: false  # why\n", "_config_version: 50\ngateway:\n  multiplex_profiles: true  # why\n"},
		"old key":     {"multiplex_profiles: no\n_config_version: 50\n", "_config_version: 50\ngateway:\n  multiplex_profiles: true\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, env := fleetHome(t, map[string]string{"config.yaml": row.before})
			e := Env{Getenv: func(n string) string { return env[n] }}
			h, err := home.Locate("", e.Getenv)
			if err != nil {
				t.Fatal(err)
			}
			f, err := newFleet(e, h, h)
			if err != nil {
				t.Fatal(err)
			}
			before, after, err := f.Flag.Draft()
			if err != nil || string(before) != row.before || string(after) != row.after {
				t.Errorf("got %q, want %q; %v", after, row.after, err)
			}
			if on, err := f.Flag.On(); on || err != nil {
				t.Errorf("it is on: %v, %v", on, err)
			}
			if err := os.WriteFile(filepath.Join(dir, "config.yaml"), after, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err = newFleet(e, h, h)
			if err != nil {
				t.Fatal(err)
			}
			if on, err := f.Flag.On(); !on || err != nil {
				t.Errorf("it is not on: %v, %v", on, err)
			}
		})
	}
}

// TestReport16_ServedProfile: H#109473. A profile that a live gateway serves gets no second one;
// what a gateway left that is gone, or another process wrote, keeps nobody from starting. Nor does
// a gateway that writes its list again while the profiles are given back.
func TestReport16_ServedProfile(t *testing.T) {
	t.Parallel()
	me := os.Getpid()
	served := fmt.Sprintf(`{"pid": %d, "served_profiles": ["default", "work"]}`, me)
	const on, manifest = "gateway:\n  multiplex_profiles: true\n", `{"version": 1, "default": {}, "secondaries": []}`
	for name, row := range map[string]struct {
		pid, state, config, manifest, record string
		want                                 exitcode.Code
	}{
		"served":                      {fmt.Sprint(me), served, on, manifest, "", exitcode.Config},
		"served, whatever file says":  {fmt.Sprint(me), served, "", "", "", exitcode.Config},
		"not served":                  {fmt.Sprint(me), fmt.Sprintf(`{"pid": %d, "served_profiles": ["default"]}`, me), on, manifest, "", exitcode.OK},
		"another process wrote":       {fmt.Sprint(me), `{"pid": 999999999, "served_profiles": ["default", "work"]}`, on, "", "", exitcode.OK},
		"the writer is gone":          {"999999999", `{"pid": 999999999, "served_profiles": ["default", "work"]}`, on, "", "", exitcode.OK},
		"torn":                        {fmt.Sprint(me), `{"pid": `, on, "", "", exitcode.OK},
		"given back":                  {fmt.Sprint(me), served, "", manifest, "", exitcode.OK},
		"given back but for the last": {fmt.Sprint(me), served, "", "", `{"last": true}`, exitcode.OK},
		"migrated before":             {fmt.Sprint(me), served, "", "", `{}`, exitcode.Config},
		"the manifest is torn":        {fmt.Sprint(me), served, "", `{`, "", exitcode.Config},
		"the record is torn":          {fmt.Sprint(me), served, "", manifest, `{`, exitcode.Config},
		"the config is torn":          {fmt.Sprint(me), served, "a: [", manifest, "", exitcode.Config},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"gateway.pid": row.pid, "gateway_state.json": row.state, "config.yaml": "_config_version: 50\n" + row.config}
			if row.manifest != "" {
				files[fleet.ManifestName] = row.manifest
			}
			if row.record != "" {
				files[filepath.Join(".appliance", fleet.ManifestName)] = row.record
			}
			dir, _ := fleetHome(t, files)
			err := unserved(home.Home{Dir: filepath.Join(dir, "profiles", "work"), Profile: "work"})
			if got := exitcode.Of(err); got != row.want || err != nil && !strings.Contains(err.Error(), "--standalone") {
				t.Errorf("exit %d, %v", got, err)
			}
			if err := unserved(home.Home{Dir: dir, Profile: home.Default}); err != nil {
				t.Errorf("the default profile: %v", err)
			}
		})
	}
}

// TestEnvironmentBelongsToItsHome: a credential that only the environment has is the default
// profile's if this command was started for it, and is named as that; a command that was started
// for another profile has nothing of the default one.
func TestEnvironmentBelongsToItsHome(t *testing.T) {
	dir, env := fleetHome(t, map[string]string{"profiles/work/.env": "TELEGRAM_BOT_TOKEN=1:x\n"})
	t.Setenv("TELEGRAM_BOT_TOKEN", "1:x")
	p, _, text := fleetPlan(t, env, "--multiplex")
	if len(p.Blockers) != 1 || !strings.Contains(p.Blockers[0].Message, "of default in the environment of this command") || !strings.Contains(p.Blockers[0].Fix, "unset TELEGRAM_BOT_TOKEN") {
		t.Errorf("got %s", text)
	}
	env["HERMES_HOME"] = filepath.Join(dir, "profiles", "fun")
	if p, _, text := fleetPlan(t, env, "--multiplex"); p.Blocked() || p.Home != dir {
		t.Errorf("started for a profile: %s", text)
	}
}
