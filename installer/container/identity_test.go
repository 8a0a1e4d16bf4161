// SPDX-License-Identifier: MIT

package container

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

func TestChoose(t *testing.T) {
	t.Parallel()
	root := Facts{Home: "/opt/data", HomeUID: Nobody, HomeGID: Nobody, SocketGID: Nobody}
	with := func(f Facts, change func(*Facts)) Facts { change(&f); return f }
	type env map[string]string
	for _, row := range []struct {
		name   string
		facts  Facts
		env    env
		uid    int
		gid    int
		groups []int
	}{
		{"nothing there", root, nil, 10000, 10000, []int{10000}},
		{"root's directory", with(root, func(f *Facts) { f.HomeUID, f.HomeGID = 0, 0 }), nil, 10000, 10000, []int{10000}},
		{"the owner of the home", with(root, func(f *Facts) { f.HomeUID, f.HomeGID = 99, 100 }), nil, 99, 100, []int{100}},
		{"never root's group", with(root, func(f *Facts) { f.HomeUID, f.HomeGID = 99, 0 }), nil, 99, 10000, []int{10000}},
		{"PUID wins over the owner", with(root, func(f *Facts) { f.HomeUID, f.HomeGID = 99, 100 }), env{EnvPUID: "7"}, 7, 10000, []int{10000}},
		{"PGID alone", with(root, func(f *Facts) { f.HomeUID, f.HomeGID = 99, 100 }), env{EnvPGID: "7"}, 99, 7, []int{7}},
		{"both names", root, env{EnvUID: "5", EnvPUID: "6", EnvGID: "8", EnvPGID: "9"}, 5, 8, []int{8}},
		{"blank is not set", root, env{EnvUID: " ", EnvPUID: "6"}, 6, 10000, []int{10000}},
		{"the largest", root, env{EnvUID: "65534"}, 65534, 10000, []int{10000}},
		{"a socket's group", with(root, func(f *Facts) { f.SocketGID = 998 }), nil, 10000, 10000, []int{10000, 998}},
		{"a socket of root's group", with(root, func(f *Facts) { f.SocketGID = 0 }), nil, 10000, 10000, []int{10000, 0}},
		{"a socket of the own group", with(root, func(f *Facts) { f.SocketGID = 10000 }), nil, 10000, 10000, []int{10000}},
		{"root on demand", root, env{EnvAllowRoot: "1"}, 0, 0, nil},
		{"a user all the same", root, env{EnvAllowRoot: "yes", EnvPUID: "7"}, 7, 10000, []int{10000}},
		{"no demand", root, env{EnvAllowRoot: "0"}, 10000, 10000, []int{10000}},
		{"no root", with(root, func(f *Facts) { f.UID, f.GID = 12, 13 }), nil, 12, 13, nil},
		{"no root, and what it has anyway", with(root, func(f *Facts) { f.UID, f.GID = 12, 13 }), env{EnvPUID: "12", EnvPGID: "13"}, 12, 13, nil},
	} {
		got, err := Choose(row.facts, func(name string) string { return row.env[name] })
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		if got.UID != row.uid || got.GID != row.gid || !slices.Equal(got.Groups, row.groups) || got.Why == "" {
			t.Errorf("%s: got %+v", row.name, got)
		}
	}
	for _, row := range []struct {
		name string
		uid  int
		env  env
		want []string
	}{
		{"another user", 12, env{EnvPUID: "7"}, []string{"PUID=7", "user 12", "--user 7:13", "--user 0:0"}},
		{"another group", 12, env{EnvGID: "7"}, []string{"HERMES_GID=7", "group 13", "--user 12:7"}},
		{"root by number", 0, env{EnvPUID: "0"}, []string{"PUID=0", EnvAllowRoot}},
		{"no number", 0, env{EnvPGID: "users"}, []string{"PGID=users", "1 to 65534"}},
		{"negative", 0, env{EnvPUID: "-1"}, []string{"PUID=-1"}},
		{"too large", 0, env{EnvPUID: "65535"}, []string{"PUID=65535"}},
		{"hexadecimal", 0, env{EnvPUID: "0x10"}, []string{"PUID=0x10"}},
	} {
		_, err := Choose(Facts{UID: row.uid, GID: 13, HomeUID: Nobody, HomeGID: Nobody, SocketGID: Nobody}, func(name string) string { return row.env[name] })
		var c *ConfigError
		if !errors.As(err, &c) || exitcode.Of(err) != exitcode.Config {
			t.Errorf("%s: got %v, want a ConfigError", row.name, err)
			continue
		}
		for _, want := range row.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", row.name, err, want)
			}
		}
	}
}

// TestReport14Arguments: H#34192, H#66679, options meant for an init never reach a command.
func TestReport14Arguments(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hermes-appliance status --json":                             "status --json",
		"/usr/local/bin/hermes status":                               "status",
		"/usr/bin/tini":                                              "container",
		"/usr/bin/tini -g --":                                        "container",
		"/usr/bin/tini -g -- gateway run":                            "container gateway run",
		"/usr/bin/tini -vvv -s -w -p SIGTERM -e 143 -- bash -c true": "container bash -c true",
		"/usr/bin/tini -p":                                           "container",
		"/usr/bin/tini --some-new-option gateway run":                "container gateway run",
		"/usr/bin/tini -g -- /opt/hermes/docker/entrypoint.sh hermes gateway run": "container gateway run",
		"/init /opt/hermes/docker/main-wrapper.sh":                                "container",
		"/init /opt/hermes/docker/main-wrapper.sh sleep infinity":                 "container sleep infinity",
		"/opt/hermes/docker/entrypoint.sh hermes-appliance status":                "container status",
		"tini -- hermes-appliance container gateway run":                          "container gateway run",
	} {
		if diff := cmp.Diff(want, strings.Join(Arguments(strings.Fields(in)), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
	if got := Arguments(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestGateway(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "yes", "up": "yes", "gateway": "yes", "gateway run": "yes", "hermes gateway run": "yes", "gateway run --profile work": "yes --profile work",
		"gateway run --replace --accept-hooks": "yes", "gateway --accept-hooks": "yes", "--home /x": "yes --home /x",
		"gateway status": "no", "status": "no", "bash": "no", "sleep infinity": "no", "--version": "no", "hermes status": "no",
	} {
		options, ok := Gateway(strings.Fields(in))
		got := strings.Join(append([]string{map[bool]string{true: "yes", false: "no"}[ok]}, options...), " ")
		if got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
