// SPDX-License-Identifier: MIT

package checkpoint_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/checkpoint"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestUserRepositoryUntouched: the repository that a directory is, the submodules and the
// nested repositories in it stay as they are to the byte, through taking, restoring and
// pruning.
func TestUserRepositoryUntouched(t *testing.T) {
	t.Parallel()
	b := setup(t)
	lib := t.TempDir()
	testkit.WriteTree(t, lib, map[string]string{"lib.c": "lib"})
	commit := func(dir string) {
		git(t, dir, "add", "-A")
		git(t, dir, "commit", "-qm", "c")
	}
	git(t, lib, "init", "-q")
	commit(lib)
	git(t, b.work, "init", "-q")
	b.write(t, map[string]string{"a": "1", "b": "1", "nested/n": "1", "bare/readme": "1"})
	git(t, b.work, "submodule", "--quiet", "add", lib, "sub")
	commit(b.work)
	git(t, filepath.Join(b.work, "nested"), "init", "-q") // without a commit
	b.write(t, map[string]string{"a": "staged"})
	git(t, b.work, "add", "a")
	b.write(t, map[string]string{"a": "not staged", "other/o": "1"})
	git(t, filepath.Join(b.work, "other"), "init", "-q")
	commit(filepath.Join(b.work, "other"))

	state := func() map[string]string {
		out := map[string]string{}
		for name, text := range testkit.ReadTree(t, b.work) {
			if strings.Contains(name, ".git") || strings.HasPrefix(name, "sub/") || strings.HasPrefix(name, "other/") {
				out[name] = text
			}
		}
		return out
	}
	before := state()
	c := b.take(t)
	for _, dir := range []string{"other/", "sub/"} {
		if !slices.Contains(c.Left, dir) {
			t.Errorf("left: got %v, want %s among them", c.Left, dir)
		}
	}
	b.write(t, map[string]string{"a": "agent", "c": "agent"})
	remove(t, b.work, "b")
	b.restore(t, c.Hash)
	if _, err := b.Prune(t.Context(), checkpoint.PruneOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "repositories", state(), before)
	if got := git(t, b.work, "show", ":a"); got != "staged" {
		t.Errorf("the index has %q, want what was staged", got)
	}
	b.sound(t)
}

// TestSettingsOfOthersHaveNoEffect: nothing of the user's or the system's git, no hook, filter
// or variable reaches a checkpoint.
func TestSettingsOfOthersHaveNoEffect(t *testing.T) {
	t.Parallel()
	user := t.TempDir()
	canary := filepath.Join(user, "canary")
	tell := "#!/bin/sh\necho \"$0\" >>" + canary + "\ncat\nexit 1\n"
	config := "[core]\n\thooksPath = " + user + "/hooks\n\texcludesFile = " + user + "/ignore\n\tattributesFile = " + user + "/attributes\n\tautocrlf = true\n\tfsmonitor = " + user + "/tell\n\tsshCommand = " + user + "/tell\n" +
		"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = " + user + "/tell\n[filter \"evil\"]\n\tclean = " + user + "/tell\n\tsmudge = " + user + "/tell\n\trequired = true\n[diff \"evil\"]\n\ttextconv = " + user + "/tell\n[init]\n\ttemplateDir = " + user + "/template\n[user]\n\tname = Canary\n[diff]\n\texternal = " + user + "/tell\n"
	files := map[string]string{
		".gitconfig": config, ".config/git/config": config, ".config/git/ignore": "*\n", "ignore": "*\n", "attributes": "* filter=evil\n", ".config/git/attributes": "* filter=evil diff=evil\n", "tell": tell,
	}
	for _, hook := range []string{"pre-commit", "post-commit", "reference-transaction", "post-index-change", "post-checkout", "pre-auto-gc", "fsmonitor-watchman"} {
		files["hooks/"+hook], files["template/hooks/"+hook] = tell, tell
	}
	testkit.WriteTree(t, user, files)
	for name, text := range files {
		if text == tell {
			chmod(t, user, name, 0o755)
		}
	}
	evil := filepath.Join(user, "elsewhere")
	b := setup(t, func(o *checkpoint.Options) {
		o.Env = append(o.Env, "HOME="+user, "XDG_CONFIG_HOME="+user+"/.config", "GIT_CONFIG_GLOBAL="+user+"/.gitconfig", "GIT_CONFIG_SYSTEM="+user+"/.gitconfig",
			"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.excludesFile", "GIT_CONFIG_VALUE_0="+user+"/ignore", "GIT_CONFIG_PARAMETERS='core.hooksPath="+user+"/hooks'",
			"GIT_DIR="+evil, "GIT_WORK_TREE="+user, "GIT_INDEX_FILE="+evil+"/index", "GIT_OBJECT_DIRECTORY="+evil+"/objects", "GIT_NAMESPACE=evil", "GIT_ALTERNATE_OBJECT_DIRECTORIES="+evil,
			"GIT_TEMPLATE_DIR="+user+"/template", "GIT_EXEC_PATH="+user, "GIT_TRACE="+canary, "GIT_EXTERNAL_DIFF="+user+"/tell", "GIT_AUTHOR_NAME=Canary", "GIT_DEFAULT_HASH=sha256", "GIT_GLOB_PATHSPECS=1",
			"PAGER="+user+"/tell", "EDITOR="+user+"/tell", "SECRET=canary")
	})
	b.write(t, map[string]string{"a": "1\r\n", ".gitattributes": "* filter=evil diff=evil text eol=crlf\n"})
	c := b.take(t)
	want := testkit.ReadTree(t, b.work)
	b.write(t, map[string]string{"a": "2\n", "b": "1"})
	if diff, err := b.Diff(t.Context(), b.work, c.Hash); err != nil || !strings.Contains(diff, "+2") {
		t.Errorf("diff: got %q, %v", diff, err)
	}
	b.restore(t, c.Hash)
	same(t, "restored", testkit.ReadTree(t, b.work), want)
	if _, err := b.Prune(t.Context(), checkpoint.PruneOptions{}); err != nil {
		t.Error(err)
	}
	if said, err := os.ReadFile(canary); err == nil {
		t.Errorf("something of the user's ran: %s", said)
	}
	for _, path := range []string{evil, filepath.Join(b.dir, "store", "hooks")} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was made", path)
		}
	}
	if log := git(t, filepath.Join(b.dir, "store"), "--git-dir=.", "log", "--all", "--format=%an %ae"); strings.Contains(log, "Canary") {
		t.Errorf("author: got %s", log)
	}
}
