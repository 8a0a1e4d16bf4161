// SPDX-License-Identifier: MIT

package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// pluginKind is what a plugin's manifest says of one that is a secret source.
const pluginKind = "secret-source"

// maxManifest is the size beyond which a file is no manifest.
const maxManifest = 1 << 20

// sourceName is what a source may be called: it is a key of the secrets section.
var sourceName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// ReadPlugins returns the secret sources that the plugins of a home declare, in the order of
// their directories: each directory in plugins/ whose plugin.yaml (or plugin.yml) says
//
//	kind: secret-source
//	name: my_vault                       # configured by secrets.my_vault
//	shape: mapped                        # or bulk, which is the default
//	command: [./bin/fetch, --json]       # no shell; ./ is the plugin's directory
//	protected_env_vars: [MY_VAULT_TOKEN]
//	fetch_timeout_seconds: 20
//
// One that cannot be read or makes no sense declares nothing and is among the warnings, which
// name the file and hold no value. Nothing of a plugin is run here. The error is that of a
// plugins directory that cannot be listed.
func ReadPlugins(dir string) (plugins []Plugin, warnings []string, err error) {
	root := filepath.Join(dir, "plugins")
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "__") || e.Type()&(fs.ModeDir|fs.ModeSymlink) == 0 {
			continue // as the plugin loader does
		}
		p, ok, err := readPlugin(filepath.Join(root, e.Name()))
		switch {
		case err != nil:
			warnings = append(warnings, err.Error())
		case ok:
			plugins = append(plugins, p)
		}
	}
	return plugins, warnings, nil
}

// readPlugin reads the manifest of one plugin; ok says that it is a secret source.
func readPlugin(dir string) (p Plugin, ok bool, err error) {
	for _, name := range []string{"plugin.yaml", "plugin.yml"} {
		path := filepath.Join(dir, name)
		data, st, err := atomicfile.Read(path)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, atomicfile.ErrNotRegular), err == nil && !st.Exists:
			continue
		case err != nil:
			return p, false, err
		case len(data) > maxManifest:
			return p, false, fmt.Errorf("%s: larger than %d bytes", path, maxManifest)
		}
		doc, err := yamlspan.Parse(data)
		if err != nil {
			return p, false, fmt.Errorf("%s: %w", path, err)
		}
		m := manifest{doc, path, nil}
		if m.text("kind") != pluginKind {
			return p, false, nil
		}
		p = m.plugin(dir)
		return p, m.err == nil, m.err
	}
	return p, false, nil
}

// manifest is a plugin.yaml; the first error is kept.
type manifest struct {
	doc  *yamlspan.Doc
	path string
	err  error
}

func (m *manifest) plugin(dir string) Plugin {
	p := Plugin{Name: m.text("name"), Shape: Bulk, Args: m.list("command"), Protected: m.list("protected_env_vars")}
	if !sourceName.MatchString(p.Name) {
		m.fail("name", "lower case letters, digits and _")
	}
	switch m.text("shape") {
	case "mapped":
		p.Shape = Mapped
	case "bulk", "":
	default:
		m.fail("shape", "mapped or bulk")
	}
	switch {
	case len(p.Args) == 0:
		m.fail("command", "a list with a program and its arguments")
	case strings.HasPrefix(p.Args[0], "./"):
		p.Args[0] = filepath.Join(dir, filepath.FromSlash(p.Args[0]))
		if rel, err := filepath.Rel(dir, p.Args[0]); err != nil || !filepath.IsLocal(rel) {
			m.fail("command", "a program in the plugin's directory")
		}
	case filepath.Base(p.Args[0]) != p.Args[0] && !filepath.IsAbs(p.Args[0]):
		m.fail("command", "an absolute program, one in PATH, or one that begins with ./")
	}
	for _, name := range p.Protected {
		if !validName(name) {
			m.fail("protected_env_vars", "names of variables")
		}
	}
	p.Budget = m.seconds("fetch_timeout_seconds")
	return p
}

func (m *manifest) fail(key, want string) {
	line := 1
	if f, ok := m.doc.Find(key); ok {
		line = f.Line
	}
	if m.err == nil {
		m.err = fmt.Errorf("%s:%d: %s: want %s", m.path, line, key, want)
	}
}

func (m *manifest) value(key string) any {
	f, ok := m.doc.Find(key)
	if !ok {
		return nil
	}
	return yamlspan.Resolve(f.Node)
}

func (m *manifest) text(key string) string {
	s, _ := m.value(key).(string)
	return strings.TrimSpace(s)
}

func (m *manifest) list(key string) (out []string) {
	f, ok := m.doc.Find(key)
	if !ok || f.Node.Kind == yamlspan.Scalar && yamlspan.Resolve(f.Node) == nil {
		return nil
	}
	for _, item := range f.Node.Items {
		s, ok := yamlspan.Resolve(item).(string)
		if !ok || s == "" {
			m.fail(key, "a list of texts")
			return nil
		}
		out = append(out, s)
	}
	if f.Node.Kind != yamlspan.Sequence {
		m.fail(key, "a list of texts")
	}
	return out
}

func (m *manifest) seconds(key string) time.Duration {
	var n float64
	switch v := m.value(key).(type) {
	case nil:
		return 0
	case int64:
		n = float64(v)
	case float64:
		n = v
	}
	if !(n > 0 && n <= 3600) {
		m.fail(key, "seconds, more than 0 and at most 3600")
		return 0
	}
	return time.Duration(n * float64(time.Second))
}
