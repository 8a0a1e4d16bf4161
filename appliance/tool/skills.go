// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Skills are the instructions that a profile's agent has learnt: skills/[<category>/]<name>/SKILL.md
// with files beside it. It is safe for concurrent use.
type Skills struct {
	Home       string   // the profile's home
	External   []string // skills.external_dirs: read, and never written
	Disabled   []string // skills.disabled, and those of the platform
	Manager    string   // who manages the home; "" = the user. A managed home's skills are not written
	Files      atomicfile.Writer
	AskToWrite func(ctx context.Context, summary, detail string) error // skills.write_approval; nil = not asked. An error refuses
}

// Skill is one skill as a list shows it.
type Skill struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Category    string `json:"category,omitempty"`

	dir  string // resolved
	root string // resolved: the directory of skills it was found in
	own  bool   // in the profile's own directory
}

// maxDepth is how deep below a directory of skills a SKILL.md is looked for.
const maxDepth = 6

func (s *Skills) dir() string { return filepath.Join(s.Home, "skills") }

// List returns the skills that can be used here, by category and name. Of two with one name
// the first directory's counts. What cannot be read is left out.
func (s *Skills) List() []Skill {
	var out []Skill
	for _, k := range s.all() {
		if !slices.ContainsFunc(out, func(x Skill) bool { return x.Name == k.Name }) && !slices.Contains(s.Disabled, k.Name) {
			out = append(out, k)
		}
	}
	slices.SortStableFunc(out, func(a, b Skill) int {
		return strings.Compare(a.Category+"\x00"+a.Name, b.Category+"\x00"+b.Name)
	})
	return out
}

// all returns every skill of every directory.
func (s *Skills) all() []Skill {
	var out []Skill
	for i, root := range append([]string{s.dir()}, s.External...) {
		real, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		for _, dir := range skillDirs(real) {
			text, err := readInside(dir, "SKILL.md")
			if err != nil {
				continue
			}
			f, _ := parseFrontmatter(text)
			if !fitsSystem(f.values["platforms"]) {
				continue
			}
			k := Skill{Name: f.name, Description: clip(f.about, maxSkillAbout), dir: dir, root: real, own: i == 0}
			if k.Name == "" {
				k.Name = filepath.Base(dir)
			}
			k.Name = clip(k.Name, maxSkillName)
			if first, _, deep := strings.Cut(k.path(), "/"); deep {
				k.Category = first
			}
			out = append(out, k)
		}
	}
	return out
}

// path is where a skill is below its directory of skills, with slashes. For one that is linked
// in from elsewhere it is its own directory's name.
func (k Skill) path() string {
	if rel, err := filepath.Rel(k.root, k.dir); err == nil && inside(k.root, k.dir) {
		return filepath.ToSlash(rel)
	}
	return filepath.Base(k.dir)
}

// inside reports whether p is dir or lies in it; both are resolved.
func inside(dir, p string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// skillDirs returns the directories below root with a SKILL.md, in order. What belongs to a
// skill is not searched for others, hidden directories are not searched at all, and links to
// directories are followed one step, as people link a skill in.
func skillDirs(root string) []string {
	var out []string
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		if info, err := os.Stat(filepath.Join(dir, "SKILL.md")); err == nil && info.Mode().IsRegular() && depth > 0 {
			out = append(out, dir)
			return
		}
		entries, err := os.ReadDir(dir)
		if err != nil || depth >= maxDepth {
			return
		}
		for _, e := range entries {
			name, p := e.Name(), filepath.Join(dir, e.Name())
			if strings.HasPrefix(name, ".") || name == "node_modules" {
				continue
			}
			if e.Type()&fs.ModeSymlink != 0 {
				real, err := filepath.EvalSymlinks(p)
				if info, serr := os.Stat(p); err == nil && serr == nil && info.IsDir() && !slices.Contains(out, real) {
					if _, err := os.Stat(filepath.Join(real, "SKILL.md")); err == nil {
						out = append(out, real)
					}
				}
				continue
			}
			if e.IsDir() {
				walk(p, depth+1)
			}
		}
	}
	walk(root, 0)
	return out
}

func fitsSystem(v any) bool {
	want := texts(v)
	if len(want) == 0 {
		return true
	}
	mine := map[string][]string{"darwin": {"macos", "darwin"}, "windows": {"windows"}, "linux": {"linux"}}[runtime.GOOS]
	return slices.ContainsFunc(want, func(w string) bool { return slices.Contains(mine, strings.ToLower(w)) })
}

// readInside reads a file below a directory; links may not lead out of it. It opens what it
// judged: the directory's own handle refuses to leave it, whatever is exchanged meanwhile.
func readInside(dir, rel string) (string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	info, err := root.Stat(filepath.FromSlash(rel))
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: not a regular file", rel)
	}
	if info.Size() > maxSkillFile {
		return "", fmt.Errorf("%s: larger than %d KB", rel, maxSkillFile>>10)
	}
	data, err := root.ReadFile(filepath.FromSlash(rel))
	return string(data), err
}

// Index renders the list for the system prompt; "" = no skills.
func (s *Skills) Index() string {
	var b strings.Builder
	for _, k := range s.List() {
		name := k.Name
		if k.Category != "" {
			name = k.Category + "/" + k.Name
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, strings.Join(strings.Fields(k.Description), " "))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// find returns the one skill that a name means: its own name, its directory's, or a path from
// the directory of skills on.
func (s *Skills) find(name string) (Skill, error) {
	name = strings.TrimSpace(name)
	if name == "" || path.IsAbs(name) || filepath.IsAbs(name) || slices.Contains(strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }), "..") {
		return Skill{}, fmt.Errorf("%q is no skill's name: use the names of skills_list", name)
	}
	name = strings.ReplaceAll(name, ":", "/")
	var found []Skill
	for _, k := range s.all() {
		if k.Name == name || filepath.Base(k.dir) == name || k.path() == name || k.Category+"/"+k.Name == name {
			found = append(found, k)
		}
	}
	if own := slices.DeleteFunc(slices.Clone(found), func(k Skill) bool { return !k.own }); len(own) == 1 && len(found) > 1 && strings.Contains(name, "/") {
		found = own
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		var names []string
		for _, k := range s.List() {
			names = append(names, k.Name)
		}
		return Skill{}, &CallError{fmt.Sprintf("there is no skill %q", name), map[string]any{"success": false, "available_skills": names[:min(len(names), 30)]}}
	}
	var dirs []string
	for _, k := range found {
		dirs = append(dirs, filepath.Join(k.dir, "SKILL.md"))
	}
	return Skill{}, &CallError{fmt.Sprintf("%d skills are called %q: use the path with its category, as in \"category/name\"", len(found), name), map[string]any{"success": false, "matches": dirs}}
}

// linked lists the files beside a SKILL.md by directory.
func linked(dir string) map[string][]string {
	out := map[string][]string{}
	for _, sub := range []string{"references", "templates", "scripts", "examples", "assets"} {
		base := filepath.Join(dir, sub)
		_ = filepath.WalkDir(base, func(p string, e fs.DirEntry, err error) error { //nolint:errcheck // what cannot be read is left out
			if err != nil || len(out[sub]) >= 200 {
				return fs.SkipDir
			}
			if e.Type().IsRegular() {
				if rel, err := filepath.Rel(dir, p); err == nil {
					out[sub] = append(out[sub], filepath.ToSlash(rel))
				}
			}
			return nil
		})
	}
	return out
}

// Text returns the SKILL.md of a skill, for a surface whose sessions begin with it.
func (s *Skills) Text(name string) (string, error) {
	k, err := s.find(name)
	if err != nil {
		return "", err
	}
	if slices.Contains(s.Disabled, k.Name) {
		return "", fmt.Errorf("the skill %q is disabled in config.yaml", k.Name)
	}
	text, err := readInside(k.dir, "SKILL.md")
	if err != nil {
		return "", fmt.Errorf("the skill %q: %s", k.Name, reason(err))
	}
	return text, nil
}

func (s *Skills) view(name, file string) (any, error) {
	k, err := s.find(name)
	if err != nil {
		return nil, err
	}
	if slices.Contains(s.Disabled, k.Name) {
		return nil, fmt.Errorf("the skill %q is disabled in config.yaml", k.Name)
	}
	if file != "" {
		if err := insidePath(file); err != nil {
			return nil, err
		}
		text, err := readInside(k.dir, file)
		if err != nil {
			return nil, &CallError{fmt.Sprintf("%s of the skill %q: %s", file, k.Name, reason(err)), map[string]any{"success": false, "available_files": linked(k.dir)}}
		}
		return map[string]any{"success": true, "name": k.Name, "file": file, "content": text}, nil
	}
	text, err := readInside(k.dir, "SKILL.md")
	if err != nil {
		return nil, fmt.Errorf("the skill %q: %s", k.Name, reason(err))
	}
	f, _ := parseFrontmatter(text)
	meta, _ := f.values["metadata"].(map[string]any)
	hermes, _ := meta["hermes"].(map[string]any)
	first := func(key string) []string {
		if v := texts(hermes[key]); len(v) > 0 {
			return v
		}
		return texts(f.values[key])
	}
	out := map[string]any{
		"success": true, "name": k.Name, "description": f.about, "tags": first("tags"), "related_skills": first("related_skills"),
		"content": text, "path": k.path() + "/SKILL.md", "skill_dir": k.dir,
	}
	if files := linked(k.dir); len(files) > 0 {
		out["linked_files"] = files
		out["usage_hint"] = "to read one of linked_files: skill_view(name, file_path)"
	}
	return out, nil
}

// reason keeps the paths of the machine out of an error.
func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "no such file"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	}
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// Tools returns skills_list, skill_view and skill_manage.
func (s *Skills) Tools() []Tool {
	return []Tool{
		{
			Name: "skills_list", Toolset: "skills", Parallel: true,
			Description: "List the skills: names and what they are for. skill_view(name) shows one.",
			Schema:      object(map[string]Schema{"category": text("Only this category")}),
			Run: func(_ context.Context, a Args) (any, error) {
				skills, categories := []Skill{}, []string{}
				for _, k := range s.List() {
					if c := a.String("category"); c != "" && c != k.Category {
						continue
					}
					skills = append(skills, k)
					if k.Category != "" && !slices.Contains(categories, k.Category) {
						categories = append(categories, k.Category)
					}
				}
				return map[string]any{"success": true, "skills": skills, "categories": categories, "count": len(skills), "hint": "skill_view(name) shows the whole skill and its files"}, nil
			},
		},
		{
			Name: "skill_view", Toolset: "skills", Parallel: true,
			Description: "Show a skill: its instructions and the names of its files; with file_path one of these files.",
			Schema: object(map[string]Schema{
				"name":      text("The skill, as skills_list names it"),
				"file_path": text("A file of the skill, as in 'references/api.md'; leave out for the instructions"),
			}, "name"),
			Run: func(_ context.Context, a Args) (any, error) { return s.view(a.String("name"), a.String("file_path")) },
		},
		s.manageTool(),
	}
}
