// SPDX-License-Identifier: MIT

package appliance

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// filesBelow are the descriptors of this process that lead below a directory.
func filesBelow(t *testing.T, dir string) (out []string) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir+"/") {
			out = append(out, strings.TrimPrefix(to, dir+"/"))
		}
	}
	return out
}

func answered(t *testing.T, tenant *Tenant, text string) {
	t.Helper()
	turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "cli", Key: "agent:main:test:chat", Input: model.Text(model.User, text)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := turn.Result(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (k *kit) profile(t *testing.T, id, config string) *Tenant {
	t.Helper()
	testkit.WriteTree(t, filepath.Join(k.dir, "profiles", id), map[string]string{
		"config.yaml": "_config_version: 50\napprovals:\n  mode: \"off\"\n" + config, ".env": "ITS_TOKEN=a-secret-of-" + id + "\n",
	})
	tenant, err := k.rt.Tenant(id)
	if err != nil {
		t.Fatal(err)
	}
	return tenant
}

// TestDeletedProfileLeavesNothing: what a profile has open is ended when the profile is deleted and
// somebody asks for it, or for another one; one that is made anew under its name works.
func TestDeletedProfileLeavesNothing(t *testing.T) {
	t.Parallel()
	needBash(t)
	k := newKit(t, "gateway:\n  multiplex_profiles: true\n", time.Now)
	mcp := "mcp_servers:\n  asking:\n    url: " + asking(t).URL + "\n"
	use := func(id string) {
		t.Helper()
		tenant := k.profile(t, id, mcp)
		answered(t, tenant, `call: terminal {"command":"sleep 3600","background":true}`)
		k.rt.grants.Grant(tenant.home.Dir, "s", []string{"x"})
		if len(filesBelow(t, tenant.home.Dir)) == 0 || len(tenant.MCP()) != 1 || len(k.rt.processes.Live()) != 1 {
			t.Fatalf("%s: files %v, servers %v, commands %v", id, filesBelow(t, tenant.home.Dir), tenant.MCP(), k.rt.processes.Live())
		}
		if err := os.RemoveAll(tenant.home.Dir); err != nil {
			t.Fatal(err)
		}
	}
	left := func(id string) {
		t.Helper()
		k.rt.chores.Wait()
		dir := filepath.Join(k.dir, "profiles", id)
		if files := filesBelow(t, dir); len(files) > 0 {
			t.Errorf("%s: open files %v", id, files)
		}
		statuses, _ := k.rt.servers.Health()
		k.rt.env.mu.Lock()
		defer k.rt.env.mu.Unlock()
		if len(statuses) > 0 || len(k.rt.processes.Live()) > 0 || len(k.rt.leaving) > 0 {
			t.Errorf("%s: servers %v, commands %v, leaving %v", id, statuses, k.rt.processes.Live(), k.rt.leaving)
		}
		for key := range k.rt.env.remembered {
			if filepath.Base(string(key)) == id {
				t.Errorf("%s is remembered", id)
			}
		}
		if keys, _ := k.rt.grants.Granted(dir, "s"); keys != nil {
			t.Errorf("%s: grants %v", id, keys)
		}
		if _, ok := k.rt.veils.by.Load(id); ok {
			t.Errorf("%s: its redactor is kept", id)
		}
	}
	use("bob")
	if _, err := k.rt.Tenant("bob"); !errors.Is(err, home.ErrNoProfile) {
		t.Fatalf("a profile that was deleted: %v", err)
	}
	left("bob")
	use("bob") // made anew
	k.profile(t, "carol", "")
	left("bob")
}

// TestProfileByTwoNames: a link to a profile is that profile. Two would each want its database.
func TestProfileByTwoNames(t *testing.T) {
	t.Parallel()
	k := newKit(t, "gateway:\n  multiplex_profiles: true\n", time.Now)
	bob := k.profile(t, "bob", "")
	if err := os.Symlink("bob", filepath.Join(k.dir, "profiles", "link")); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"bob", "link", "bob", "link"} {
		got, err := k.rt.Tenant(id)
		if err != nil || got != bob {
			t.Fatalf("%s is another profile, %v", id, err)
		}
		answered(t, got, "hello")
	}
}
