// SPDX-License-Identifier: MIT

package childenv

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// dumpArg makes the test binary a child that says what it sees. It is an argument, because
// the environment must be exactly the one that was built.
const dumpArg = "childenv-dump"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == dumpArg {
		if err := dump(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// seen is what a child sees of its parent.
type seen struct {
	Env   []string
	Args  []string
	Dir   string
	Files []string // what its open descriptors lead to
	Child *seen    // its own child, started as any program starts one
}

func dump(generation string) error {
	s := seen{Args: os.Args}
	if raw, err := os.ReadFile("/proc/self/environ"); err == nil {
		s.Env = strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	} else {
		s.Env = os.Environ()
	}
	s.Dir, _ = os.Getwd()
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			s.Files = append(s.Files, to)
		}
	}
	if generation == "child" {
		grandchild, err := hear(exec.CommandContext(context.Background(), os.Args[0], dumpArg, "grandchild"))
		if err != nil {
			return err
		}
		s.Child = &grandchild
	}
	return json.NewEncoder(os.Stdout).Encode(s)
}

// hear starts a child and listens to what it says. It does not wait for its end: with the
// race detector a process takes a second to exit.
func hear(cmd *exec.Cmd) (seen, error) {
	var s seen
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s, err
	}
	if err := cmd.Start(); err != nil {
		return s, err
	}
	err = json.NewDecoder(out).Decode(&s)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err != nil {
		return s, fmt.Errorf("%w: %s", err, &stderr)
	}
	return s, nil
}

// spawn starts a real child with exactly that environment.
func spawn(t *testing.T, env []string, dir string) seen {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, dumpArg, "child")
	cmd.Env, cmd.Dir = env, dir
	s, err := hear(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// canary returns a value that exists once, with characters that every encoding changes.
func canary(t *testing.T) string {
	t.Helper()
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		t.Fatal(err)
	}
	return "cnry" + hex.EncodeToString(b[:]) + `/+ "&é`
}

// forms are the ways a value may be written down. The middle of its base64 form is the same
// at each of three offsets only, so all of them are given.
func forms(value string) []string {
	raw := []byte(value)
	out := []string{value, hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), url.QueryEscape(value), url.PathEscape(value)}
	j, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	out = append(out, strings.Trim(string(j), `"`), value[:20])
	for skip := range 3 {
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			e := enc.EncodeToString(append(make([]byte, skip), raw...))
			out = append(out, e[4:len(e)-4])
		}
	}
	return out
}

// canaryClasses are the sorts of names of the matrix; a name is made for each owner and
// origin, or taken from the spec's list.
func canaryName(class string, n int) string {
	list := map[string][]string{isTier1: namesOf(isTier1), isTier2: namesOf(isTier2), isRouting: nil}[class]
	if list != nil {
		return list[n%len(list)]
	}
	return fmt.Sprintf(map[string]string{
		isPlain: "CANARY_%d", isGate: "DISCORD_ALLOWED_CANARY%d", isDynamic: "AUXILIARY_C%d_API_KEY", isBuzz: "BUZZ_C%d",
		isPluginOwn: "CANARYPLUG%d_TOKEN", isRuntime: "CANARYADAPTER%d_SECRET", isBackend: "CANARYBACKEND%d",
		isTerminal: "TERMINAL_C%d", isForce: "_HERMES_FORCE_C%d", isSession: "HERMES_SESSION_C%d", isPass: "CANARYPASS%d",
		isForward: "CANARYFORWARD%d",
	}[class], n)
}

var canaryClasses = []string{
	isPlain, isTier1, isTier2, isDynamic, isPluginOwn, isRuntime, isBackend, isGate, isBuzz, isTerminal, isForce,
	isSession, isPass, isForward,
}

// canaryWorld has a canary for every owner × origin × class. The secret of a profile's own
// plugin is another's to everybody else.
func canaryWorld(t *testing.T, target string) world {
	t.Helper()
	w := world{mux: true}
	n := 0
	plantAll := func(owner, origin string) {
		for _, class := range canaryClasses {
			name := canaryName(class, n)
			if class == isPluginOwn && owner != target {
				class = isPluginFor
			}
			w.plants = append(w.plants, plant{owner, origin, class, name, canary(t)})
		}
		n++
	}
	for _, origin := range ownedOrigins {
		for _, owner := range []string{"A", "B", "C"} {
			plantAll(owner, origin)
		}
	}
	for _, origin := range freeOrigins {
		plantAll("", origin)
	}
	return w
}

// TestCanaries starts a real child of every kind for every profile and looks for every value
// that it must not have, in whatever form, also in its own child, and for every value that
// it must have.
func TestCanaries(t *testing.T) {
	t.Parallel()
	p := load(t)
	open, err := os.Create(filepath.Join(t.TempDir(), "of-the-parent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = open.Close() })
	t.Run("matrix", func(t *testing.T) {
		for _, mode := range []struct {
			target string
			mux    bool
		}{{"A", true}, {"B", true}, {"C", true}, {"B", false}} {
			w := canaryWorld(t, mode.target)
			w.mux = mode.mux
			for _, kind := range oracleKinds {
				t.Run(fmt.Sprintf("%s for %s mux %v", kind, mode.target, mode.mux), func(t *testing.T) {
					t.Parallel()
					s := w.snapshot(mode.target)
					env, err := p.Build(kind, s)
					if err != nil {
						t.Fatal(err)
					}
					child := spawn(t, env, t.TempDir())
					for who := &child; who != nil; who = who.Child {
						for _, line := range w.wrong(kind, mode.target, who.Env) {
							t.Error(line)
						}
						if slices.Contains(who.Files, open.Name()) {
							t.Error("a file of the parent is open in the child")
						}
					}
					w.noTrace(t, kind, mode.target, child)
					explained, err := p.Explain(kind, s)
					if err != nil {
						t.Fatal(err)
					}
					w.noValue(t, explained)
				})
			}
		}
	})
}

// noTrace looks for everything that must not be there in all that a child says.
func (w world) noTrace(t *testing.T, kind, target string, child seen) {
	t.Helper()
	all, err := json.Marshal(child)
	if err != nil {
		t.Fatal(err)
	}
	text := string(all) + "\n" + strings.Join(append(slices.Clone(child.Env), child.Child.Env...), "\n")
	for _, p := range w.plants {
		n, rule := oracle(oracleCase{kind, target != "A", w.mux, w.asked, p.owner == target, p.origin, p.class, p.name})
		if n != mustNot {
			continue
		}
		for _, f := range forms(p.value) {
			if strings.Contains(text, f) {
				t.Errorf("%s value of %s (%s, owner %q) is there as %q; %s", p.origin, p.name, p.class, p.owner, f, rule)
			}
		}
	}
}

// noValue looks for any value at all in a report.
func (w world) noValue(t *testing.T, report any) {
	t.Helper()
	all, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range w.plants {
		for _, f := range forms(p.value) {
			if bytes.Contains(all, []byte(f)) {
				t.Errorf("the report holds the value of %s as %q", p.name, f)
			}
		}
	}
}
