// SPDX-License-Identifier: MIT

package secret

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

func TestScopeIdentity(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	d.dotenv("bot", "A=bot\n")
	t.Run("R3/foreign scopes are stamped", func(t *testing.T) {
		if got := d.scope("bot").Stamp(); got != home.Key(d.home("bot").Dir) {
			t.Errorf("got %q", got)
		}
	})
	t.Run("R4/the launch home's are not", func(t *testing.T) {
		if got := d.scope(home.Default); got.Stamp() != "" || got.Home() != home.Key(d.root.Dir) {
			t.Errorf("got %q, %q", got.Stamp(), got.Home())
		}
		// A host whose own home is not HERMES_HOME: the binder says that it is the launch home.
		sc, err := d.Scope(t.Context(), Tenant{Home: d.home("bot")})
		if err != nil || sc.Stamp() != "" {
			t.Errorf("got %q, %v", sc.Stamp(), err)
		}
	})
	t.Run("R12/gone", func(t *testing.T) {
		for _, prepare := range []func(h home.Home) error{
			func(home.Home) error { return nil },                         // never there
			func(h home.Home) error { return os.MkdirAll(h.Dir, 0o700) }, // no profile
			func(h home.Home) error {
				write(t, h.Env(), "A=1\n")
				return os.MkdirAll(filepath.Join(filepath.Dir(h.Dir), ".deleted", h.Profile), 0o700)
			},
		} {
			h := d.home("old")
			if err := prepare(h); err != nil {
				t.Fatal(err)
			}
			sc, err := d.Scope(t.Context(), d.tenant("old"))
			if sc != nil || !errors.Is(err, home.ErrNoProfile) {
				t.Errorf("got %v, %v", sc, err)
			}
		}
	})
	t.Run("C3/launch home not made yet", func(t *testing.T) {
		h := home.Home{Dir: filepath.Join(t.TempDir(), "a", "b"), Profile: home.Default}
		sc, err := d.Scope(t.Context(), Tenant{Home: h})
		if err != nil {
			t.Fatal(err)
		}
		check(t, sc, map[string]string{})
		write(t, h.Env(), "A=1\n")
		if sc, _ := d.Scope(t.Context(), Tenant{Home: h}); len(sc.Values()) != 1 {
			t.Error("the home that came into being is not read")
		}
	})
}

// TestScopeAlias reads a home through a link that is moved to another one.
func TestScopeAlias(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "one", "two")
	d.dotenv("one", "A=one\n").dotenv("two", "A=two\n")
	link := filepath.Join(t.TempDir(), "home")
	for _, p := range []string{"one", "two", "one"} {
		_ = os.Remove(link)
		symlink(t, d.home(p).Dir, link)
		sc, err := d.Scope(t.Context(), Tenant{Home: home.Home{Dir: link, Profile: p}, Foreign: true})
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := sc.Lookup("A"); v.Text.Reveal() != p || v.Origin.Home != home.Key(d.home(p).Dir) || sc.Home() != v.Origin.Home {
			t.Errorf("C2: %s: got %s of %s", p, v.Text.Reveal(), v.Origin.Home)
		}
	}
	// The real directory is replaced by a link to another home: what is read belongs to that.
	key := home.Key(d.home("one").Dir)
	if err := errors.Join(os.Rename(d.home("one").Dir, link+".old"), os.Symlink(d.home("two").Dir, d.home("one").Dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.own(key); !errors.Is(err, ErrMoved) {
		t.Errorf("C2: read under another home's key: %v", err)
	}
	if sc := d.scope("one"); sc.Home() != home.Key(d.home("two").Dir) {
		t.Errorf("C2: got %s", sc.Home())
	}
}

// TestFetchWhileHomeMoves exchanges the home while its vault is asked: what the vault of the one
// said is not filed under the other.
func TestFetchWhileHomeMoves(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "one", "two")
	link := filepath.Join(t.TempDir(), "home")
	symlink(t, d.home("one").Dir, link)
	tenant := Tenant{home.Home{Dir: link, Profile: "one"}, true}
	src := source("vault", Bulk, map[string]string{"V": "1"})
	src.during = func() {
		_ = os.Remove(link)
		symlink(t, d.home("two").Dir, link)
	}
	d.sources("one", src)
	if _, err := d.Load(t.Context(), tenant); !errors.Is(err, ErrMoved) {
		t.Errorf("C2: got %v", err)
	}
	_ = os.Remove(link)
	symlink(t, d.home("one").Dir, link)
	d.Forget(home.Key(link))
	if sc, err := d.Scope(t.Context(), tenant); err != nil || sc.Home() != home.Key(d.home("two").Dir) {
		t.Errorf("C2: got the scope of a home that is not there any more, %v", err)
	}
	src.during = nil
	check(t, d.scope("one"), map[string]string{"V": "1 source:vault"})
}

// TestRoles has one home in both roles: what the launch profile may see, a routed one may not.
func TestRoles(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot")
	d.env = map[string]string{EnvBitwarden: "process token"}
	d.grants = map[string]string{"GATEWAY_ALLOW_ALL_USERS": "true"}
	src := source("vault", Bulk, map[string]string{"V": "1"})
	d.sources("bot", src)
	own, err := d.Scope(t.Context(), Tenant{Home: d.home("bot")})
	if err != nil {
		t.Fatal(err)
	}
	if src.in.Vars[EnvBitwarden].Reveal() != "process token" {
		t.Error("the launch home's source lacks the process's token")
	}
	routed := d.scope("bot")
	if _, ok := src.in.Vars[EnvBitwarden]; ok || src.calls != 2 {
		t.Errorf("R5: the routed home's source got the process's token (calls %d)", src.calls)
	}
	check(t, own, map[string]string{"GATEWAY_ALLOW_ALL_USERS": "true grant", "V": "1 source:vault"})
	check(t, routed, map[string]string{"V": "1 source:vault"})
}

func TestOpEnv(t *testing.T) { // its parts are in order
	d := newDesk(t, "bot")
	path := filepath.Join(d.home("bot").Dir, ".op.env")
	write(t, path, EnvOnePassword+"=file\nMORE=file\nOWN=file\n")
	src := source("vault", Bulk, nil)
	for name, c := range map[string]struct {
		env  string
		want map[string]string
	}{
		"fills gaps":          {"OWN=mine\nEMPTY=\n", map[string]string{EnvOnePassword: "file", "MORE": "file", "OWN": "mine", "EMPTY": ""}},
		"not with a token":    {EnvOnePassword + "=mine\n", map[string]string{EnvOnePassword: "mine"}},
		"with an empty token": {EnvOnePassword + "=\n", map[string]string{EnvOnePassword: "file", "MORE": "file", "OWN": "file"}},
	} {
		t.Run(name, func(t *testing.T) {
			d.dotenv("bot", c.env).sources("bot", src)
			if _, err := d.Refresh(t.Context(), d.tenant("bot")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, plain(src.in.Vars)); diff != "" {
				t.Error(diff)
			}
		})
	}
	d.dotenv("bot", EnvOnePassword+"=mine\n") // whichever case came last
	if sc := d.scope("bot"); len(sc.Values()) != 1 {
		t.Errorf("a scope has values of .op.env: %v", shown(sc))
	}
	if got := d.OpEnv(d.tenant("bot")); len(got) != 3 || got[0].Origin.String() != "op-env" {
		t.Errorf("got %v", got)
	}
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	d.dotenv("bot", "")
	if _, err := d.Refresh(t.Context(), d.tenant("bot")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("unreadable .op.env: %v", err)
	}
}
