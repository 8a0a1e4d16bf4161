// SPDX-License-Identifier: MIT

package tool

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

const good = "---\nname: deploy\ndescription: >\n  How to deploy\n  the site\ntags: [ops, \"web site\"]\nmetadata:\n  hermes:\n    related_skills: a, b\n---\n\n# Deploy\n\nrun it\n"

func skills(t testing.TB) *Skills {
	t.Helper()
	s := &Skills{Home: filepath.Join(t.TempDir(), "home")}
	testkit.WriteTree(t, s.Home, map[string]string{
		"skills/ops/deploy/SKILL.md": good, "skills/ops/deploy/references/api.md": "api", "skills/ops/deploy/scripts/run.sh": "#!/bin/sh\n",
		"skills/plain/SKILL.md":                      "# Title\n\nFirst line says it.\n",
		"skills/broken/SKILL.md":                     "---\nname: [\n---\nText\n",
		"skills/off/SKILL.md":                        "---\nname: off\ndescription: d\n---\nx\n",
		"skills/win/SKILL.md":                        "---\nname: win\ndescription: d\nplatforms: [nosuchsystem]\n---\nx\n",
		"skills/.hub/x/SKILL.md":                     "---\nname: hidden\ndescription: d\n---\nx\n",
		"skills/ops/deploy/references/more/SKILL.md": "---\nname: inner\ndescription: d\n---\nx\n",
		"SECRET": "SECRET",
	})
	s.Disabled = []string{"off"}
	return s
}

func skillTool(s *Skills, name string) Tool {
	for _, t := range s.Tools() {
		if t.Name == name {
			return t
		}
	}
	panic(name)
}

func TestSkillsList(t *testing.T) {
	t.Parallel()
	s := skills(t)
	ext := t.TempDir()
	testkit.WriteTree(t, ext, map[string]string{"plain/SKILL.md": "---\nname: plain\ndescription: other\n---\nx\n", "linked/SKILL.md": "---\nname: linked\ndescription: through a link\n---\nx\n"})
	s.External = []string{filepath.Join(ext, "nowhere")}
	if err := os.Symlink(filepath.Join(ext, "linked"), filepath.Join(s.Home, "skills", "aa-link")); err != nil {
		t.Fatal(err)
	}
	want := "- broken: Text\n- linked: through a link\n- plain: First line says it.\n- ops/deploy: How to deploy the site"
	if got := s.Index(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got := call(t, skillTool(s, "skills_list"), `{"category":"ops"}`)
	if got["count"] != 1.0 || got["success"] != true {
		t.Errorf("%v", got)
	}
	s.External = []string{ext}
	if got := call(t, skillTool(s, "skill_view"), `{"name":"plain"}`); !strings.Contains(got["error"].(string), "2 skills are called") {
		t.Errorf("two of one name: %v", got)
	}
}

func TestSkillView(t *testing.T) {
	t.Parallel()
	s := skills(t)
	dir := filepath.Join(s.Home, "skills", "ops", "deploy")
	for to, from := range map[string]string{"../../../SECRET": "references/out.md", "../../..": "assets"} {
		if err := os.Symlink(to, filepath.Join(dir, from)); err != nil {
			t.Fatal(err)
		}
	}
	view := skillTool(s, "skill_view")
	for _, name := range []string{"deploy", "ops/deploy", "ops:deploy"} {
		got := call(t, view, `{"name":"`+name+`"}`)
		if got["content"] != good || got["path"] != "ops/deploy/SKILL.md" {
			t.Errorf("%s: %v", name, got)
		}
		if diff := cmp.Diff([]any{"ops", "web site"}, got["tags"]); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]any{"a", "b"}, got["related_skills"]); diff != "" {
			t.Error(diff)
		}
		files, err := json.Marshal(got["linked_files"])
		if err != nil || string(files) != `{"references":["references/api.md","references/more/SKILL.md"],"scripts":["scripts/run.sh"]}` {
			t.Errorf("files %s %v", files, err)
		}
	}
	if got := call(t, view, `{"name":"deploy","file_path":"references/api.md"}`); got["content"] != "api" {
		t.Errorf("%v", got)
	}
	for _, row := range []string{
		`{"name":"deploy","file_path":"references/out.md"}`, `{"name":"deploy","file_path":"assets/SECRET"}`, `{"name":"deploy","file_path":"../../../SECRET"}`,
		`{"name":"deploy","file_path":"references/../../../../SECRET"}`, `{"name":"deploy","file_path":"/etc/passwd"}`, `{"name":"deploy","file_path":"references"}`,
		`{"name":"deploy","file_path":"nope.md"}`, `{"name":"../ops/deploy"}`, `{"name":"/etc"}`, `{"name":"nope"}`, `{"name":"off"}`, `{"name":"hidden"}`, `{"name":"inner"}`,
	} {
		got := call(t, view, row)
		text, err := json.Marshal(got)
		if err != nil || got["error"] == nil || strings.Contains(string(text), `"SECRET"`) || strings.Contains(string(text), "root:") {
			t.Errorf("%s: %s", row, text)
		}
	}
}

// TestSkillViewRace: a directory of a skill is exchanged for a link out of it all the time;
// nothing outside is ever shown.
func TestSkillViewRace(t *testing.T) {
	t.Parallel()
	s := skills(t)
	dir := filepath.Join(s.Home, "skills", "ops", "deploy", "references")
	out := t.TempDir()
	testkit.WriteTree(t, out, map[string]string{"api.md": "SECRET"})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			for _, f := range []func() error{
				func() error { return os.Rename(dir, dir+".away") }, func() error { return os.Symlink(out, dir) },
				func() error { return os.Remove(dir) }, func() error { return os.Rename(dir+".away", dir) },
			} {
				if err := f(); err != nil {
					t.Error(err)
					return
				}
			}
		}
	})
	for range 500 {
		if v, err := s.view("deploy", "references/api.md"); err == nil && v.(map[string]any)["content"] != "api" {
			t.Fatalf("%v", v)
		}
	}
	close(stop)
	wg.Wait()
}

func TestSkillManage(t *testing.T) {
	t.Parallel()
	s := skills(t)
	manage := skillTool(s, "skill_manage")
	do := func(args map[string]string) map[string]any {
		text, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		return call(t, manage, string(text))
	}
	file := func(rel string) string { return filepath.Join(s.Home, "skills", filepath.FromSlash(rel)) }
	fresh := strings.ReplaceAll(good, "deploy", "fresh")
	if got := do(map[string]string{"action": "create", "name": "fresh", "category": "ops", "content": fresh}); got["success"] != true || get(t, file("ops/fresh/SKILL.md")) != fresh {
		t.Errorf("create: %v", got)
	}
	if got := do(map[string]string{"action": "patch", "name": "fresh", "old_string": "run  it", "new_string": "run it twice"}); got["success"] != true || !strings.Contains(get(t, file("ops/fresh/SKILL.md")), "run it twice") || !strings.Contains(got["diff"].(string), "+run it twice") {
		t.Errorf("patch: %v", got)
	}
	if got := do(map[string]string{"action": "write_file", "name": "fresh", "file_path": "scripts/a/b.sh", "file_content": "x"}); got["success"] != true || get(t, file("ops/fresh/scripts/a/b.sh")) != "x" {
		t.Errorf("write_file: %v", got)
	}
	if got := do(map[string]string{"action": "remove_file", "name": "fresh", "file_path": "scripts/a/b.sh"}); got["success"] != true {
		t.Errorf("remove_file: %v", got)
	}
	if err := os.Symlink(filepath.Join(s.Home, "SECRET"), file("ops/fresh/scripts/link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.Home, file("ops/fresh/assets")); err != nil {
		t.Fatal(err)
	}
	before := testkit.ReadTree(t, s.Home)
	for _, row := range []struct {
		args map[string]string
		say  string
	}{
		{map[string]string{"action": "create", "name": "fresh", "content": fresh}, "already"},
		{map[string]string{"action": "create", "name": "Fresh One", "content": fresh}, "no name for a skill"},
		{map[string]string{"action": "create", "name": "x", "category": "../y", "content": fresh}, "no name for a category"},
		{map[string]string{"action": "create", "name": "x", "content": "no yaml"}, "starts with YAML"},
		{map[string]string{"action": "create", "name": "x", "content": "---\nname: x\n---\nbody"}, "description"},
		{map[string]string{"action": "create", "name": "x", "content": "---\nname: x\ndescription: d\n---\n"}, "no instructions"},
		{map[string]string{"action": "create", "name": "x", "content": "---\nname: [\n---\nbody"}, "cannot be read"},
		{map[string]string{"action": "create", "name": "x", "content": "---\nname: x\ndescription: " + strings.Repeat("d", 1025) + "\n---\nbody"}, "at most 1024"},
		{map[string]string{"action": "create", "name": "x"}, `"content" is missing`},
		{map[string]string{"action": "edit", "name": "nope", "content": fresh}, "no skill"},
		{map[string]string{"action": "edit", "name": "fresh", "content": "x"}, "starts with YAML"},
		{map[string]string{"action": "patch", "name": "fresh", "old_string": "description:", "new_string": "about:"}, "Nothing was changed"},
		{map[string]string{"action": "patch", "name": "fresh", "old_string": "not in it", "new_string": "x"}, "not found"},
		{map[string]string{"action": "write_file", "name": "fresh", "file_path": "SKILL.md", "file_content": "x"}, "edit or patch"},
		{map[string]string{"action": "write_file", "name": "fresh", "file_path": "../../x", "file_content": "x"}, "no path"},
		{map[string]string{"action": "write_file", "name": "fresh", "file_path": "scripts/../../x", "file_content": "x"}, "no path"},
		{map[string]string{"action": "write_file", "name": "fresh", "file_path": "scripts/link", "file_content": "x"}, "is a link"},
		{map[string]string{"action": "write_file", "name": "fresh", "file_path": "assets/SECRET", "file_content": "x"}, "is a link"},
		{map[string]string{"action": "remove_file", "name": "fresh", "file_path": "assets/SECRET"}, "no such file"},
		{map[string]string{"action": "delete", "name": "fresh", "absorbed_into": "nope"}, "absorbed_into"},
		{map[string]string{"action": "burn", "name": "fresh"}, "must be one of"},
	} {
		if got := do(row.args); got["error"] == nil || !strings.Contains(got["error"].(string), row.say) {
			t.Errorf("%v: got %v, want %q", row.args, got, row.say)
		}
	}
	if diff := cmp.Diff(before, testkit.ReadTree(t, s.Home)); diff != "" {
		t.Errorf("refusals changed something (-want +got):\n%s", diff)
	}
	testkit.WriteTree(t, s.Home, map[string]string{"skills/.usage.json": `{"fresh":{"pinned":true}}`})
	if got := do(map[string]string{"action": "delete", "name": "fresh"}); got["error"] == nil {
		t.Errorf("pinned: %v", got)
	}
	testkit.WriteTree(t, s.Home, map[string]string{"skills/.usage.json": `{}`})
	if got := do(map[string]string{"action": "delete", "name": "fresh"}); got["success"] != true {
		t.Errorf("delete: %v", got)
	}
	if _, err := os.Stat(file("ops/fresh")); err == nil {
		t.Error("the skill is still there")
	}
	if get(t, filepath.Join(s.Home, "SECRET")) != "SECRET" || get(t, file("ops/deploy/SKILL.md")) != good {
		t.Error("a deletion followed a link")
	}
}

func TestSkillManageRefuses(t *testing.T) {
	t.Parallel()
	s := skills(t)
	ext := t.TempDir()
	testkit.WriteTree(t, ext, map[string]string{"theirs/SKILL.md": "---\nname: theirs\ndescription: d\n---\nx\n"})
	s.External = []string{ext}
	if _, err := s.manage(t.Context(), Args{"action": "delete", "name": "theirs"}); err == nil {
		t.Error("a skill of another directory was deleted")
	}
	s.Manager = "nixos"
	if skillTool(s, "skill_manage").Available() {
		t.Error("offered in a managed home")
	}
	if _, err := s.manage(t.Context(), Args{"action": "create", "name": "x", "content": good}); err == nil || !strings.Contains(err.Error(), "nixos") {
		t.Errorf("in a managed home: %v", err)
	}
}

// FuzzFrontmatter: no SKILL.md breaks the readers.
func FuzzFrontmatter(f *testing.F) {
	f.Add(good)
	f.Add("---\n---\n")
	f.Add("---\na: &x [*x]\n---\nb")
	f.Add("---\r\nname: x\r\ndescription: y\r\n---\r\nbody")
	f.Fuzz(func(t *testing.T, text string) {
		m, body := parseFrontmatter(text)
		if checkSkill(text) == nil && (m.name == "" || strings.TrimSpace(body) == "") {
			t.Fatalf("%q was taken and has name %q, body %q", text, m.name, body)
		}
	})
}
