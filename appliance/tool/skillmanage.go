// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/files"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

func (s *Skills) manageTool() Tool {
	return Tool{
		Name: "skill_manage", Toolset: "skills",
		Available: func() bool { return s.Manager == "" },
		Description: "Create, change and delete skills: what you learnt about doing a kind of task. create takes a whole SKILL.md, patch changes a part (best for fixes), edit replaces SKILL.md, " +
			"write_file and remove_file are for files under references/, templates/, scripts/, examples/ or assets/, delete removes a skill.\n" +
			"Create one when a hard task succeeded or the user asks you to remember how; patch one at once when it was wrong. Ask the user before creating or deleting. " +
			"A good skill says when to use it, the steps with exact commands, the pitfalls, and how to check the result.",
		Schema: object(map[string]Schema{
			"action":        choice("What to do", "create", "patch", "edit", "delete", "write_file", "remove_file"),
			"name":          text("The skill: lower-case letters, digits, '-', '_', '.', at most 64"),
			"content":       text("The whole SKILL.md: YAML with name and description between '---' lines, then the instructions (create, edit)"),
			"category":      text("Directory for the skill, as in 'devops' (create)"),
			"file_path":     text("File of the skill (write_file, remove_file; patch without it changes SKILL.md)"),
			"file_content":  text("Content of the file (write_file)"),
			"old_string":    text("Text to replace, in only one place (patch)"),
			"new_string":    text("New text, '' deletes (patch)"),
			"replace_all":   flag("Replace every place (patch)"),
			"absorbed_into": text("The skill that this one's content went to, '' if nowhere (delete)"),
		}, "action", "name"),
		Run: s.manage,
	}
}

// needs are the arguments of each action.
func needs(action string) []string {
	return map[string][]string{
		"create": {"content"}, "edit": {"content"}, "patch": {"old_string", "new_string"}, "write_file": {"file_path", "file_content"}, "remove_file": {"file_path"},
	}[action]
}

func (s *Skills) manage(ctx context.Context, a Args) (any, error) {
	action, name := a.String("action"), strings.TrimSpace(a.String("name"))
	if s.Manager != "" {
		return nil, fmt.Errorf("this home is managed by %s: change the skill in its configuration", s.Manager)
	}
	for _, k := range needs(action) {
		if !a.Has(k) {
			return nil, fmt.Errorf("%q is missing: %s needs it", k, action)
		}
	}
	if s.AskToWrite != nil {
		if err := s.AskToWrite(ctx, action+" the skill "+name, a.String("content")+a.String("file_content")+a.String("new_string")); err != nil {
			return nil, err
		}
	}
	if action == "create" {
		return s.create(name, strings.TrimSpace(a.String("category")), a.String("content"))
	}
	k, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if !k.own || !inside(k.root, k.dir) {
		return nil, fmt.Errorf("the skill %q is not in this profile's own directory (%s): it is not changed from here", k.Name, k.dir)
	}
	switch action {
	case "edit":
		if err := checkSkill(a.String("content")); err != nil {
			return nil, err
		}
		return s.put(k, "SKILL.md", a.String("content"))
	case "patch":
		return s.patch(k, a)
	case "write_file":
		if err := supporting(a.String("file_path")); err != nil {
			return nil, err
		}
		return s.put(k, a.String("file_path"), a.String("file_content"))
	case "remove_file":
		return s.removeFile(k, a.String("file_path"))
	}
	return s.remove(k, a)
}

var skillName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (s *Skills) create(name, category, content string) (any, error) {
	if !skillName.MatchString(name) {
		return nil, fmt.Errorf("%q is no name for a skill: lower-case letters, digits, '-', '_' and '.', at most %d", name, maxSkillName)
	}
	if category != "" && !skillName.MatchString(category) {
		return nil, fmt.Errorf("%q is no name for a category: lower-case letters, digits, '-', '_' and '.', one directory", category)
	}
	if err := checkSkill(content); err != nil {
		return nil, err
	}
	if k, err := s.find(name); err == nil {
		return nil, fmt.Errorf("there is a skill %q already (%s): patch or edit it", name, k.dir)
	}
	dir := filepath.Join(s.dir(), category, name)
	if _, err := os.Lstat(filepath.Join(dir, "SKILL.md")); err == nil {
		return nil, fmt.Errorf("%s is there already", dir)
	}
	root := s.Home
	for _, d := range []string{"skills", category, name} {
		if d == "" {
			continue
		}
		root = filepath.Join(root, d)
		if err := s.Files.Mkdir(root, 0o755); err != nil {
			return nil, err
		}
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	return s.put(Skill{Name: name, dir: real}, "SKILL.md", content)
}

// insidePath refuses a path that could leave a skill's directory by its text.
func insidePath(p string) error {
	clean := path.Clean(filepath.ToSlash(p))
	if p == "" || path.IsAbs(clean) || filepath.IsAbs(p) || clean == "." || clean == ".." || strings.HasPrefix(clean, "../") || strings.ContainsAny(p, "\x00\\") || filepath.VolumeName(p) != "" {
		return fmt.Errorf("%q is no path of a file in the skill: write it from the skill's directory on, as in \"references/api.md\"", p)
	}
	return nil
}

// supporting refuses what is no file beside SKILL.md.
func supporting(p string) error {
	if err := insidePath(p); err != nil {
		return err
	}
	first, rest, _ := strings.Cut(path.Clean(filepath.ToSlash(p)), "/")
	if rest == "" || !slices.Contains([]string{"references", "templates", "scripts", "examples", "assets"}, first) {
		return fmt.Errorf("%q: files of a skill are under references/, templates/, scripts/, examples/ or assets/; SKILL.md is changed with edit or patch", p)
	}
	return nil
}

// put writes a file of a skill. The directory is reached without links out of it.
func (s *Skills) put(k Skill, rel, content string) (any, error) {
	if len(content) > maxSkillFile {
		return nil, fmt.Errorf("%s has %d bytes, at most %d", rel, len(content), maxSkillFile)
	}
	target := filepath.Join(k.dir, filepath.FromSlash(path.Clean(filepath.ToSlash(rel))))
	dir := k.dir
	parent, err := filepath.Rel(k.dir, filepath.Dir(target))
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(filepath.ToSlash(parent), "/") {
		if part == "." {
			continue
		}
		dir = filepath.Join(dir, part)
		if err := s.Files.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
			return nil, fmt.Errorf("%s is a link: files are only written inside the skill's own directory", dir)
		}
	}
	if info, err := os.Lstat(target); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is a link or no file: it is not written", target)
	}
	st, err := s.Files.Stage(target, []byte(content), atomicfile.Options{Mode: 0o666, Umask: true})
	if err != nil {
		return nil, err
	}
	if st.Target != target {
		return nil, errors.Join(fmt.Errorf("%s leads out of the skill: it is not written", rel), st.Discard())
	}
	err = st.Commit()
	if errors.Is(err, atomicfile.ErrInPlace) {
		err = st.CommitInPlace()
	}
	if err := errors.Join(err, st.Discard()); err != nil {
		return nil, err
	}
	return map[string]any{"success": true, "message": fmt.Sprintf("%s of the skill %q is written", rel, k.Name), "path": target}, nil
}

func (s *Skills) patch(k Skill, a Args) (any, error) {
	rel := a.String("file_path")
	if rel == "" || rel == "SKILL.md" || rel == k.Name+"/SKILL.md" {
		rel = "SKILL.md"
	} else if err := supporting(rel); err != nil {
		return nil, err
	}
	was, err := readInside(k.dir, rel)
	if err != nil {
		return nil, fmt.Errorf("%s of the skill %q: %s", rel, k.Name, reason(err))
	}
	now, diff, err := files.ReplaceText(path.Join(k.Name, rel), was, a.String("old_string"), a.String("new_string"), a.Bool("replace_all"))
	if err != nil {
		return nil, err
	}
	if rel == "SKILL.md" {
		if err := checkSkill(now); err != nil {
			return nil, fmt.Errorf("with this change, %w. Nothing was changed", err)
		}
	}
	out, err := s.put(k, rel, now)
	if m, ok := out.(map[string]any); ok {
		m["diff"] = diff
	}
	return out, err
}

func (s *Skills) removeFile(k Skill, rel string) (any, error) {
	if err := supporting(rel); err != nil {
		return nil, err
	}
	target := filepath.Join(k.dir, filepath.FromSlash(rel))
	real, err := filepath.EvalSymlinks(filepath.Dir(target))
	if err != nil || !inside(k.dir, real) {
		return nil, fmt.Errorf("%s: no such file in the skill %q", rel, k.Name)
	}
	info, err := os.Lstat(target)
	if err != nil || info.IsDir() {
		return nil, &CallError{fmt.Sprintf("%s: no such file in the skill %q", rel, k.Name), map[string]any{"success": false, "available_files": linked(k.dir)}}
	}
	if err := s.Files.Remove(target); err != nil {
		return nil, err
	}
	return map[string]any{"success": true, "message": fmt.Sprintf("%s of the skill %q is removed", rel, k.Name)}, nil
}

// remove deletes a skill's directory.
func (s *Skills) remove(k Skill, a Args) (any, error) {
	if s.pinned(k.Name) {
		return nil, fmt.Errorf("the skill %q is pinned: it can be changed and not deleted", k.Name)
	}
	if into := strings.TrimSpace(a.String("absorbed_into")); into != "" {
		if other, err := s.find(into); err != nil || other.dir == k.dir {
			return nil, fmt.Errorf("absorbed_into: there is no other skill %q: create it first", into)
		}
	}
	root, err := filepath.EvalSymlinks(s.dir())
	if err != nil || k.dir == root || !inside(root, k.dir) {
		return nil, fmt.Errorf("%s is not inside the directory of skills: it is not deleted", k.dir)
	}
	dir, err := os.OpenRoot(root) // whatever is exchanged meanwhile, nothing outside is deleted
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, k.dir)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	if err := errors.Join(dir.RemoveAll(rel), dir.Close()); err != nil {
		return nil, err
	}
	if c := filepath.Dir(k.dir); c != root {
		_ = os.Remove(c) //nolint:errcheck // a category that lost its last skill goes, if nothing else is in it
	}
	return map[string]any{"success": true, "message": fmt.Sprintf("the skill %q is deleted", k.Name), "absorbed_into": a["absorbed_into"]}, nil
}

// pinned reports whether the user keeps a skill from being deleted. Upstream's record is only
// read; without one nothing is pinned.
func (s *Skills) pinned(name string) bool {
	data, err := os.ReadFile(filepath.Join(s.dir(), ".usage.json"))
	if err != nil {
		return false
	}
	var usage map[string]struct {
		Pinned bool `json:"pinned"`
	}
	return json.Unmarshal(data, &usage) == nil && usage[name].Pinned
}
