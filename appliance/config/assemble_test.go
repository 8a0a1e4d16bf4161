// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func (e Editor) env(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(e.Home.Env())
	if err != nil {
		return "-"
	}
	return string(data)
}

const assembledFirst = "# Assembled by hermes-appliance for nixos; what is written here by hand is lost.\n"

func TestAssembleEnv(t *testing.T) {
	t.Parallel()
	e := editor(t, "-")
	vars := map[string]string{"B": "two words", "A": "1", "Q": `it's`, "H": "a #b", "D": "$HOME `x`"}
	one, two := File{"/s/one", []byte("TOKEN=x # c\n# kept\nA=2")}, File{"/s/two", []byte("\ufeffTOKEN=y\r\n")}
	a, err := e.AssembleEnv(t.Context(), "nixos", vars, []File{one, two})
	want := assembledFirst + "A=1\nB='two words'\nD='$HOME `x`'\nH='a #b'\nQ=\"it's\"\nTOKEN=x # c\n# kept\nA=2\nTOKEN=y\r\n"
	if err != nil || !a.Changed || a.Kept != "" || e.env(t) != want {
		t.Fatalf("%+v %v\n%s", a, err, e.env(t))
	}
	f, err := dotenv.Parse([]byte(e.env(t)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"A": "2", "B": "two words", "Q": "it's", "H": "a #b", "D": "$HOME `x`", "TOKEN": "y"} {
		if got, _ := f.Lookup(name); got != value {
			t.Errorf("%s is read as %q, want %q", name, got, value)
		}
	}
	// The same again writes nothing, and a file that is gone is gone.
	if a, err := e.AssembleEnv(t.Context(), "nixos", vars, []File{one, two}); err != nil || a.Changed {
		t.Errorf("second: %+v %v", a, err)
	}
	if a, err := e.AssembleEnv(t.Context(), "nixos", nil, []File{two}); err != nil || !a.Changed || e.env(t) != assembledFirst+"TOKEN=y\r\n" {
		t.Errorf("third: %+v %v %q", a, err, e.env(t))
	}
}

// TestAssembleKeepsHandmade: a .env that a person made is not lost when a manager takes over.
func TestAssembleKeepsHandmade(t *testing.T) {
	t.Parallel()
	e := editor(t, "-")
	testkit.WriteTree(t, e.Home.Dir, map[string]string{".env": "MINE=1\n", ".env.unmanaged": "older\n"})
	if err := os.Chmod(e.Home.Env(), 0o640); err != nil {
		t.Fatal(err)
	}
	a, err := e.AssembleEnv(t.Context(), "nixos", map[string]string{"A": "1"}, nil)
	if err != nil || a.Kept != filepath.Join(e.Home.Dir, ".env.unmanaged.1") || e.env(t) != assembledFirst+"A=1\n" {
		t.Fatalf("%+v %v %q", a, err, e.env(t))
	}
	files := testkit.ReadTree(t, e.Home.Dir)
	if files[".env.unmanaged"] != "older\n" || files[".env.unmanaged.1"] != "MINE=1\n" {
		t.Errorf("kept: %v", files)
	}
	if info, err := os.Stat(e.Home.Env()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
}

func TestAssembleRefusals(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		manager string
		vars    map[string]string
		parts   []File
		kind    error
	}{
		"no manager":     {"", nil, nil, ErrUsage},
		"another":        {"home-manager", nil, nil, ErrManaged},
		"missing file":   {"nixos", nil, []File{{"/s/x", nil}}, ErrUnreadable},
		"no text":        {"nixos", nil, []File{{"/s/x", []byte("A\x00")}}, ErrUnreadable},
		"odd name":       {"nixos", map[string]string{"A B": "1"}, nil, ErrUsage},
		"two lines":      {"nixos", map[string]string{"A": "1\nB=2"}, nil, ErrUsage},
		"name with line": {"nixos", map[string]string{"A=1\nB": "2"}, nil, ErrUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := editor(t, "-")
			testkit.WriteTree(t, e.Home.Dir, map[string]string{".env": "OLD=1\n", ".managed": "nixos"})
			_, err := e.AssembleEnv(t.Context(), row.manager, row.vars, row.parts)
			if !errors.Is(err, row.kind) || e.env(t) != "OLD=1\n" {
				t.Errorf("got %v, want %v; the file says %q", err, row.kind, e.env(t))
			}
			if err != nil && strings.Contains(err.Error(), "B=2") {
				t.Errorf("a value is shown: %v", err)
			}
		})
	}
}

func TestAssembleWriteFails(t *testing.T) {
	t.Parallel()
	for _, op := range []atomicfile.Op{atomicfile.OpCreate, atomicfile.OpWrite, atomicfile.OpRename} {
		for _, name := range []string{".env", ".env.unmanaged"} {
			e := editor(t, "-")
			testkit.WriteTree(t, e.Home.Dir, map[string]string{".env": "OLD=1\n"})
			e.Files = atomicfile.Writer{Before: func(at atomicfile.Op, path string) error {
				if at == op && strings.Contains(path, name) {
					return errors.New("injected")
				}
				return nil
			}}
			if _, err := e.AssembleEnv(t.Context(), "nixos", nil, nil); err == nil || e.env(t) != "OLD=1\n" {
				t.Errorf("%s of %s: %v, the file says %q", op, name, err, e.env(t))
			}
		}
	}
}
