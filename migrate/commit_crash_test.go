// SPDX-License-Identifier: MIT

//go:build unix

package migrate_test

import (
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// eachScene runs a test on every scene.
func eachScene(t *testing.T, test func(t *testing.T, st *stage)) {
	t.Helper()
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			st := open(t, s)
			t.Logf("%d operations", st.n)
			test(t, st)
		})
	}
}

// TestFailAtEveryStep: whichever operation fails, the home is entirely old or entirely new, the
// error is reported, nothing is left over, and the next run ends as an undisturbed one.
func TestFailAtEveryStep(t *testing.T) {
	t.Parallel()
	eachScene(t, func(t *testing.T, st *stage) {
		seen := map[string]int{}
		st.eachStep(t, func(k int, op, dir string) {
			h := homeIn(dir)
			r, err := st.act(t.Context(), migrator(failAt(k).hook), h)
			if !errors.Is(err, errInjected) {
				t.Fatalf("%d (%s): got %v, want the injected error", k, op, err)
			}
			state := st.oldOrNew(t, dir)
			seen[state]++
			switch {
			case state == "mixed":
				t.Errorf("mixed state")
			case r.Applied != (state == "new"):
				t.Errorf("Applied is %t in the %s state", r.Applied, state)
			case state == "old":
				wantClean(t, dir, h)
			case !strings.Contains(err.Error(), "run migrate again"):
				t.Errorf("new state, but the error does not say what is missing: %v", err)
			}
			st.again(t, h)
			st.wantEnd(t, dir)
		})
		if seen["old"] == 0 || seen["new"] == 0 {
			t.Errorf("states seen: %v", seen)
		}
	})
}

// TestDiskFillsUp: from one operation on every one fails, also those that undo. What cannot be
// undone then is journalled, and the next run undoes it.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	eachScene(t, func(t *testing.T, st *stage) {
		mixed := 0
		st.eachStep(t, func(k int, op, dir string) {
			full := failAt(k)
			full.rest = true
			if _, err := st.act(t.Context(), migrator(full.hook), homeIn(dir)); !errors.Is(err, errInjected) {
				t.Fatalf("%d (%s): got %v", k, op, err)
			}
			mixed += st.wantJournalIfMixed(t, dir)
			st.again(t, homeIn(dir))
			st.wantEnd(t, dir)
		})
		if mixed == 0 {
			t.Error("no mixed state was ever left: the test shows nothing")
		}
	})
}

// TestKillAtEveryStep kills a process at every operation in turn. The next run settles it, says
// so, and ends as an undisturbed one. The tests that only simulate a kill are held to what the
// kernel leaves.
func TestKillAtEveryStep(t *testing.T) {
	t.Parallel()
	eachScene(t, func(t *testing.T, st *stage) {
		mixed := 0
		st.eachStep(t, func(k int, op, dir string) {
			h := homeIn(dir)
			if _, killed := startChild(t, st.verb, h, k, 0).run(t); !killed {
				t.Fatalf("%d (%s): survived", k, op)
			}
			st.crashed(t, k, func(simulated string) {
				if diff := cmp.Diff(treeOf(t, simulated), treeOf(t, dir)); diff != "" {
					t.Errorf("a real kill leaves something else than a simulated one (-simulated +real):\n%s", diff)
				}
			})
			mixed += st.wantJournalIfMixed(t, dir)
			journal := hasJournal(t, h)
			if r := st.again(t, h); (r.Recovered != "") != journal {
				t.Errorf("journal %t, but recovered %q", journal, r.Recovered)
			}
			st.wantEnd(t, dir)
		})
		if mixed == 0 {
			t.Error("no mixed state was ever left: the test shows nothing")
		}
	})
}

// TestKillDuringRecovery kills a run at every operation, and what recovers it at every one of
// its own.
func TestKillDuringRecovery(t *testing.T) {
	t.Parallel()
	eachScene(t, func(t *testing.T, st *stage) {
		total, most := 0, 0
		st.eachCrash(t, func(k int, model string) {
			ops := st.recoveryOps(t, model)
			most = max(most, len(ops))
			var last map[string]string
			for r, op := range ops {
				if r%stride > 0 {
					continue
				}
				withCopy(t, model, func(dir string) {
					total++
					if !crashes(func() { _, _ = st.act(t.Context(), migrator(crashAt(r+1).hook), homeIn(dir)) }) {
						t.Fatalf("killed at %d (%s), recovery at %d: not reached", k, st.ops[k-1], r+1)
					}
					tree := treeOf(t, dir)
					if maps.Equal(tree, last) {
						return // as the kill before left it
					}
					last = tree
					st.wantJournalIfMixed(t, dir)
					st.again(t, homeIn(dir))
					st.wantDone(t, dir)
				})
				if t.Failed() {
					t.Fatalf("after a kill at %d (%s) and one at %d of the recovery (%s)", k, st.ops[k-1], r+1, op)
				}
			}
		})
		t.Logf("%d double crashes, at most %d operations of recovery", total, most)
		if total < 50 {
			t.Errorf("only %d double crashes", total)
		}
	})
}

// recoveryOps lists the operations that settle a crashed home: those before the first file is
// staged anew, from where on it is a run as any other.
func (st *stage) recoveryOps(t testing.TB, model string) []string {
	t.Helper()
	all := &steps{}
	withCopy(t, model, func(dir string) {
		if _, err := st.act(t.Context(), migrator(all.hook), homeIn(dir)); err != nil && !errors.Is(err, migrate.ErrNoBackup) {
			t.Fatal(err)
		}
	})
	n := slices.IndexFunc(all.log, func(op string) bool {
		return strings.HasPrefix(op, "create .") && strings.HasSuffix(op, ".migrate-new")
	})
	if n < 0 {
		return all.log
	}
	return all.log[:n]
}

// TestKillAnywhere kills migrators after a random time, on a real disk, over and over.
func TestKillAnywhere(t *testing.T) {
	t.Parallel()
	const rounds, slow = 40, 300 * time.Microsecond // most of the time is spent writing, not planning
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 1))
	st := &stage{scene: scenes()[1], model: filepath.Join(t.TempDir(), "model")}
	st.build(t, st.model)
	var whole time.Duration
	withCopy(t, st.model, func(dir string) {
		c := startChild(t, st.verb, homeIn(dir), 0, slow)
		begin := time.Now()
		if applied, killed := c.run(t); killed || !applied {
			t.Fatal("the undisturbed run did nothing")
		}
		whole = time.Since(begin)
	})
	states := map[string]int{}
	for i, begin := 0, time.Now(); i < rounds; i++ {
		if i >= rounds/4 && time.Since(begin) > 3*time.Minute {
			break // each round flushes hundreds of times, and this disk has others to serve
		}
		withCopy(t, st.model, func(dir string) {
			h := homeIn(dir)
			c := startChild(t, st.verb, h, 0, slow)
			if err := c.in.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.Int64N(int64(whole))))
			_ = c.cmd.Process.Kill() // it may be done
			_ = c.cmd.Wait()
			states[st.oldOrNew(t, dir)]++
			st.wantJournalIfMixed(t, dir)
			journal := hasJournal(t, h)
			if r := st.again(t, h); (r.Recovered != "") != journal {
				t.Errorf("journal %t, but recovered %q", journal, r.Recovered)
			}
			st.wantEnd(t, dir)
		})
		if t.Failed() {
			t.Fatalf("seed %d, round %d", seed, i)
		}
	}
	t.Logf("states after a kill within %v: %v", whole, states)
}

// eachStep runs f once for each operation, on a copy of the scene.
func (st *stage) eachStep(t *testing.T, f func(k int, op, dir string)) {
	t.Helper()
	for k := 1; k <= st.n; k += stride {
		withCopy(t, st.model, func(dir string) { f(k, st.ops[k-1], dir) })
		if t.Failed() {
			t.Fatalf("at operation %d (%s)", k, st.ops[k-1])
		}
	}
}

// eachCrash runs f for each state in which a kill can leave the scene. Many operations change
// nothing that a later run could see; f gets the first of them.
func (st *stage) eachCrash(t testing.TB, f func(k int, model string)) {
	t.Helper()
	var last map[string]string
	for k := 1; k <= st.n; k++ {
		st.crashed(t, k, func(dir string) {
			if tree := treeOf(t, dir); !maps.Equal(tree, last) {
				last = tree
				f(k, dir)
			}
		})
	}
}

// crashed runs f on a copy of the scene as a kill at the k-th operation leaves it.
func (st *stage) crashed(t testing.TB, k int, f func(dir string)) {
	t.Helper()
	withCopy(t, st.model, func(dir string) {
		if !crashes(func() { _, _ = st.act(t.Context(), migrator(crashAt(k).hook), homeIn(dir)) }) {
			t.Fatalf("operation %d was not reached", k)
		}
		f(dir)
	})
}

// wantJournalIfMixed checks that nothing is half done without a record; it returns 1 for half
// done.
func (st *stage) wantJournalIfMixed(t testing.TB, dir string) int {
	t.Helper()
	if st.oldOrNew(t, dir) != "mixed" {
		return 0
	}
	if !hasJournal(t, homeIn(dir)) {
		t.Errorf("mixed state and no journal")
	}
	return 1
}

// treeOf reads everything below a directory, without what differs from process to process and
// from place to place.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	tree := testkit.ReadTree(t, dir)
	for name, text := range tree {
		if filepath.Base(name) == "lock" {
			text = ""
		}
		tree[name] = strings.ReplaceAll(text, dir, "DIR")
	}
	return tree
}
