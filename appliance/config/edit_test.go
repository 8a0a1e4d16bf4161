// SPDX-License-Identifier: MIT

package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// editor makes a home with one config and an editor for it.
func editor(t testing.TB, text string) Editor {
	t.Helper()
	h := home.Home{Dir: t.TempDir(), Profile: home.Default}
	if text != "-" {
		testkit.WriteTree(t, h.Dir, map[string]string{"config.yaml": text})
	}
	return Editor{Home: h, Getenv: func(string) string { return "" }, LockWait: time.Second}
}

func (e Editor) text(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(e.Home.Config())
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const sample = `# top
_config_version: 50   # stamp

terminal:  # where
  backend: "local"   # keep me
  cwd: .
  # image below
  docker_volumes:
    - /a:/b  # first
  timeout: 180

# tail
display: {skin: dark, size: 3}
`

func TestSetBytes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		before, path, value string
		want                string // "" = unchanged
	}{
		"scalar":          {sample, "terminal.timeout", "60", strings.Replace(sample, "180", "60", 1)},
		"keeps comment":   {sample, "terminal.backend", "docker", strings.Replace(sample, `"local"`, "docker", 1)},
		"same":            {sample, "terminal.timeout", "180", ""},
		"same other way":  {sample, "terminal.backend", "local", ""},
		"pin":             {sample, "terminal.docker_image", "nousresearch/hermes-sandbox:desktop", strings.Replace(sample, "timeout: 180\n", "timeout: 180\n  docker_image: nousresearch/hermes-sandbox:desktop\n", 1)},
		"new section":     {sample, "compression.threshold_tokens", "256_000", sample + "compression:\n  threshold_tokens: 256_000\n"},
		"deep":            {sample, `model."grok-4.6".x`, "on", sample + "model:\n  grok-4.6:\n    x: on\n"},
		"text for number": {sample, "unknown", `"5"`, sample + "unknown: \"5\"\n"},
		"text key":        {sample, "terminal.ssh_host", "10", strings.Replace(sample, "timeout: 180\n", "timeout: 180\n  ssh_host: \"10\"\n", 1)},
		"text key off":    {sample, "terminal.degraded_mode", "off", strings.Replace(sample, "timeout: 180\n", "timeout: 180\n  degraded_mode: \"off\"\n", 1)},
		"tilde is text":   {sample, "terminal.cwd", "~", strings.Replace(sample, "cwd: .", `cwd: "~"`, 1)},
		"empty text":      {sample, "terminal.ssh_key", "", strings.Replace(sample, "timeout: 180\n", "timeout: 180\n  ssh_key: \"\"\n", 1)},
		"null":            {sample, "compression.threshold_tokens", "null", sample + "compression:\n  threshold_tokens: null\n"},
		"unknown null":    {sample, "x", "~", sample + "x: ~\n"},
		"list":            {sample, "terminal.docker_volumes", "[/c:/d, /e:/f]", strings.Replace(strings.Replace(sample, "  docker_volumes:\n    - /a:/b  # first\n", "", 1), "timeout: 180\n", "timeout: 180\n  docker_volumes: [/c:/d, /e:/f]\n", 1)},
		"list to text":    {"a: [1]\nb: 2\n", "a", "x", "b: 2\na: x\n"},
		"only list":       {"t:\n  v:\n    - 1\nb: 2\n", "t.v", "[2]", "t:\n  v: [2]\nb: 2\n"},
		"map":             {"a: 1\n", "m", "{x: 1, y: [2]}", "a: 1\nm: {x: 1, y: [2]}\n"},
		"empty map":       {"m: {}\n", "m", "{x: 1}", "m: {x: 1}\n"},
		"flow":            {sample, "display.size", "4", strings.Replace(sample, "size: 3", "size: 4", 1)},
		"flow new":        {sample, "display.image", "a/b:c", strings.Replace(sample, "size: 3", "size: 3, image: a/b:c", 1)},
		"flow comma":      {sample, "display.image", "a, b", strings.Replace(sample, "size: 3", `size: 3, image: "a, b"`, 1)},
		"JSON":            {"{\n  \"terminal\": {\"timeout\": 1}\n}\n", "terminal.docker_image", "a/b:c", "{\n  \"terminal\": {\"timeout\": 1, \"docker_image\": \"a/b:c\"}\n}\n"},
		"JSON list":       {"{\"a\": 1}\n", "b", "[x, yes]", "{\"a\": 1, \"b\": [\"x\",true]}\n"},
		"JSON quotes":     {"{\"a\": 1}\n", "b", "'it''s'", "{\"a\": 1, \"b\": \"it's\"}\n"},
		"JSON replace":    {"{\"a\": \"x\"}\n", "a", "y", "{\"a\": \"y\"}\n"},
		"no final break":  {"a: 1", "b", "2", "a: 1\nb: 2"},
		"empty file":      {"", "terminal.backend", "docker", "terminal:\n  backend: docker\n"},
		"comments only":   {"# hi\n", "a", "1", "# hi\na: 1\n"},
		"null section":    {"terminal:\nb: 1\n", "terminal.backend", "docker", "terminal:\n  backend: docker\nb: 1\n"},
		"null value":      {"a:\nb: 1\n", "a", "x", "a: x\nb: 1\n"},
		"template":        {string(home.Template()), "terminal.timeout", "9", strings.Replace(string(home.Template()), "timeout: 180", "timeout: 9", 1)},
		"variable":        {"a: 1\n", "terminal.timeout", "${T}", "a: 1\nterminal:\n  timeout: ${T}\n"},
		"JSON in text":    {"a: 1\n", "terminal.docker_volumes", `'["/a:/b"]'`, "a: 1\nterminal:\n  docker_volumes: '[\"/a:/b\"]'\n"},
		"unrelated twice": {"x: 1\nx: 2\na: 1\n", "a", "2", "x: 1\nx: 2\na: 2\n"},
		"table entry":     {"a: 1\n", "terminal.docker_env.FOO", "1", "a: 1\nterminal:\n  docker_env:\n    FOO: 1\n"},
	} {
		path, err := ParsePath(row.path)
		if err != nil {
			t.Fatal(err)
		}
		want := row.want
		if want == "" {
			want = row.before
		}
		e := editor(t, row.before)
		c, err := e.Set(t.Context(), path, row.value)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := e.text(t); got != want || c.Changed != (want != row.before) {
			t.Errorf("%s, changed %v:\ngot  %q\nwant %q", name, c.Changed, got, want)
		}
		if again, err := e.Set(t.Context(), path, row.value); err != nil || again.Changed {
			t.Errorf("%s: a second time: %+v, %v", name, again, err)
		}
		if strings.Contains(row.before, "\n") { // a file of one line has no line ending to follow
			dos := func(s string) string { return "\xef\xbb\xbf" + strings.ReplaceAll(s, "\n", "\r\n") }
			if got, err := setInMemory(dos(row.before), path, row.value); err != nil || got != dos(want) {
				t.Errorf("%s with CRLF and BOM, %v:\ngot  %q\nwant %q", name, err, got, dos(want))
			}
		}
	}
}

func setInMemory(text string, path []string, value string) (string, error) {
	v, err := parseValue(path, value)
	if err != nil {
		return "", err
	}
	d, err := newDraft(File{"config.yaml", []byte(text)}, path)
	if err != nil {
		return "", err
	}
	err = d.set(v)
	return string(d.doc.Bytes()), err
}

func TestUnsetBytes(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ before, path, want string }{
		"scalar":        {sample, "terminal.timeout", strings.Replace(sample, "  timeout: 180\n", "", 1)},
		"comment stays": {sample, "terminal.docker_volumes", strings.Replace(sample, "  docker_volumes:\n    - /a:/b  # first\n", "", 1)},
		"flow":          {sample, "display.skin", strings.Replace(sample, "skin: dark, ", "", 1)},
		"section":       {sample, "display", strings.Replace(sample, "display: {skin: dark, size: 3}\n", "", 1)},
		"absent":        {sample, "terminal.docker_image", sample},
		"absent deep":   {sample, "terminal.timeout.x.y", sample},
		"last one":      {"a: 1\nt:\n  x: 1\n", "t.x", "a: 1\nt: {}\n"},
		"dotted":        {"m:\n  a.b: 1\n  a: {b: 2}\n", `m."a.b"`, "m:\n  a: {b: 2}\n"},
		"JSON":          {"{\"a\": 1, \"b\": 2}\n", "b", "{\"a\": 1}\n"},
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			before, want := strings.ReplaceAll(row.before, "\n", eol), strings.ReplaceAll(row.want, "\n", eol)
			e := editor(t, before)
			path, err := ParsePath(row.path)
			if err != nil {
				t.Fatal(err)
			}
			c, err := e.Unset(t.Context(), path)
			if got := e.text(t); err != nil || got != want || c.Changed != (want != before) {
				t.Errorf("%s, changed %v, %v:\ngot  %q\nwant %q", name, c.Changed, err, got, want)
			}
		}
	}
}

func TestEditRefuses(t *testing.T) {
	t.Parallel()
	const usage, guess = exitcode.Usage, exitcode.Unparseable
	for name, row := range map[string]struct {
		before, path, value string
		code                exitcode.Code
		want                string
	}{
		"no file":           {"-", "terminal.timeout", "1", exitcode.Error, "run hermes-appliance up"},
		"unparsable":        {"a: [\n", "b", "1", guess, "line 1: not valid YAML"},
		"list at the top":   {"- a\n", "b", "1", guess, "expected a section"},
		"stamp":             {sample, "_config_version", "49", usage, "migrate"},
		"newer":             {"_config_version: 60\n", "a", "1", exitcode.Newer, "version 60"},
		"secret":            {sample, "OPENAI_API_KEY", "x", usage, ".env"},
		"not YAML":          {sample, "a", "@x", usage, `'"@x"'`},
		"comment":           {sample, "a", "x # y", usage, "comment"},
		"only a comment":    {sample, "a", "#x", usage, "comment"},
		"marker":            {sample, "a", "---", usage, "comment or a marker"},
		"section":           {sample, "a", "b: c", usage, "'{b: c}'"},
		"item":              {sample, "a", "- b", usage, "'[b]'"},
		"tag":               {sample, "a", "!!str 5", usage, "a tag"},
		"anchor":            {sample, "a", "[&x 1]", usage, "an anchor"},
		"alias":             {sample, "a", "*x", usage, "an alias"},
		"lines":             {sample, "a", "x\ny", usage, "more than one line"},
		"number":            {sample, "terminal.timeout", "soon", usage, "expected a number"},
		"negative":          {sample, "terminal.timeout", "-1", usage, "not negative"},
		"boolean":           {sample, "terminal.persistent_shell", "maybe", usage, "expected true or false"},
		"list":              {sample, "terminal.docker_volumes", "/a:/b", usage, "expected a list"},
		"list of lists":     {sample, "terminal.docker_volumes", "[[a]]", usage, "item 1 is a list"},
		"backend":           {sample, "terminal.backend", "dokcer", usage, "did you mean docker?"},
		"blank image":       {sample, "terminal.docker_image", " ", usage, "unset the key"},
		"null image":        {sample, "terminal.docker_image", "null", usage, "unset the key"},
		"null number":       {sample, "terminal.timeout", "~", usage, "unset the key"},
		"image list":        {sample, "terminal.docker_image", "[a]", usage, "is a list; expected"},
		"section by text":   {sample, "terminal", "docker", usage, "section with keys in it"},
		"section by a list": {"a: 1\n", "compression", "[a]", usage, "is a section of keys"},
		"section by a map":  {sample, "display", "{a: 1}", usage, "unset it first"},
		"bad in a map":      {"a: 1\n", "terminal", "{timeout: soon}", usage, "terminal.timeout"},
		"bad table entry":   {"a: 1\n", "terminal.docker_env.FOO", "[a]", usage, "expected text"},
		"below a value":     {"a: x\n", "a.b", "1", guess, "not a section"},
		"below a list":      {"a: [1]\n", "a.b", "1", guess, "not a section"},
		"twice":             {"a: {b: 1, b: 2}\n", "a.b", "3", guess, "given twice"},
		"shared":            {"x: &x {b: 1}\na: *x\n", "a.b", "3", guess, "alias"},
		"merged":            {"x: &x {b: 1}\na: {<<: *x}\n", "a.b", "3", guess, "merge"},
		"anchored":          {"x: &x {b: 1}\na: *x\n", "x.b", "3", guess, "used again"},
		"tagged":            {"a: !!int 1\n", "a", "3", guess, "tag"},
		"unset merged":      {"x: &x {b: 1}\na: {<<: *x}\n", "a.b", "-unset", guess, "merge"},
		"unset stamp":       {sample, "_config_version", "-unset", usage, "migrate"},
	} {
		e := editor(t, row.before)
		e.Latest = 50
		path, err := ParsePath(row.path)
		if err != nil {
			t.Fatal(err)
		}
		if row.value == "-unset" {
			_, err = e.Unset(t.Context(), path)
		} else {
			_, err = e.Set(t.Context(), path, row.value)
		}
		if err == nil || exitcode.Of(err) != row.code || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got %v (%v), want %q (%v)", name, err, exitcode.Of(err), row.want, row.code)
		}
		tree := testkit.ReadTree(t, e.Home.Dir)
		if row.before == "-" {
			row.before = ""
		}
		if tree["config.yaml"] != row.before {
			t.Errorf("%s: the file was changed", name)
		}
		for f := range tree {
			if f != "config.yaml" {
				t.Errorf("%s: a refusal made the file %s", name, f)
			}
		}
	}
	if _, err := editor(t, "a: 1\n").Set(t.Context(), []string{"a\xff"}, "1"); exitcode.Of(err) != usage {
		t.Errorf("a key that is no text: %v", err)
	}
	loop := editor(t, "-")
	if err := os.Symlink(loop.Home.Config(), loop.Home.Config()); err != nil {
		t.Fatal(err)
	}
	if _, err := loop.Set(t.Context(), []string{"a"}, "1"); exitcode.Of(err) != guess {
		t.Errorf("a link to itself: %v", err)
	}
	if _, err := editor(t, "a: 1\n").Set(t.Context(), nil, "1"); exitcode.Of(err) != usage {
		t.Errorf("no key: %v", err)
	}
}

func TestEditManaged(t *testing.T) {
	t.Parallel()
	path := []string{"terminal", "docker_image"}
	try := func(name string, e Editor, want ...string) {
		t.Helper()
		before := testkit.ReadTree(t, e.Home.Dir)
		for what, run := range map[string]func() error{
			"set":   func() error { return second(e.Set(t.Context(), path, "me/x:1")) },
			"unset": func() error { return second(e.Unset(t.Context(), path)) },
		} {
			err := run()
			if !errors.Is(err, ErrManaged) || exitcode.Of(err) != exitcode.Managed {
				t.Errorf("%s, %s: got %v", name, what, err)
				continue
			}
			for _, w := range want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%s, %s: %v does not say %q", name, what, err, w)
				}
			}
		}
		if after := testkit.ReadTree(t, e.Home.Dir); !reflect.DeepEqual(before, after) {
			t.Errorf("%s: the home was changed", name)
		}
	}
	const text = "terminal: {docker_image: me/y:2}\n"
	const option = "services.hermes-agent.settings.terminal.docker_image"

	e := editor(t, text)
	e.Getenv = func(name string) string { return map[string]string{home.EnvManaged: "true"}[name] }
	try("variable", e, "nixos", option)
	e.Getenv = func(name string) string { return map[string]string{home.EnvManaged: "chef"}[name] }
	try("other manager", e, "managed by chef", "change it there")
	e = editor(t, text)
	testkit.WriteTree(t, e.Home.Dir, map[string]string{".managed": "home-manager"})
	try("marker", e, "home-manager", option)

	e = editor(t, text)
	if err := os.Chmod(e.Home.Config(), 0o444); err != nil {
		t.Fatal(err)
	}
	try("read-only", e, "read-only file")

	e = editor(t, text)
	e.AdminDir = t.TempDir()
	for what, files := range map[string]map[string]string{
		"leaf":  {"config.yaml": "a: 1\nterminal: {docker_image: it/z:3}\n", ".env": ""},
		"null":  {"config.yaml": "terminal: {docker_image: null}\n", ".env": ""},
		"above": {"config.yaml": "terminal: {docker_image: {a: b}}\n", ".env": ""},
		".env":  {"config.yaml": "a: 1\n", ".env": "TERMINAL_DOCKER_IMAGE=it/z:3\n"},
	} {
		testkit.WriteTree(t, e.AdminDir, files)
		if what == "above" {
			continue // the administrator's fault: ignored there, see below
		}
		try("administrator, "+what, e, e.AdminDir, "no effect")
	}
	// What the administrator does not decide, or nobody can read, is the user's.
	for what, files := range map[string]map[string]string{
		"another key": {"config.yaml": "terminal: {timeout: 1}\n", ".env": "TERMINAL_TIMEOUT=1\n"},
		"unreadable":  {"config.yaml": "[", ".env": "\x00"},
		"misfit":      {"config.yaml": "terminal: docker\n", ".env": ""},
		"blank":       {"config.yaml": "", ".env": "TERMINAL_DOCKER_IMAGE=\n"},
	} {
		testkit.WriteTree(t, e.AdminDir, files)
		if c, err := e.Set(t.Context(), path, "me/"+strings.ReplaceAll(what, " ", "-")); err != nil || !c.Changed {
			t.Errorf("%s: %+v, %v", what, c, err)
		}
	}
}

func TestEditNotes(t *testing.T) {
	t.Parallel()
	image := []string{"terminal", "docker_image"}
	e := editor(t, "a: 1\n")
	say := func(c Change, err error, want string) {
		t.Helper()
		if err != nil || !strings.Contains(strings.Join(c.Notes, "\n"), want) || want == "" && c.Notes != nil {
			t.Errorf("got %v, %v; want %q", c.Notes, err, want)
		}
	}
	c, err := e.Set(t.Context(), image, defaultImage)
	say(c, err, "pins the sandbox image")
	if p, err := LoadTerminal(e.Home, Options{}, TerminalInput{}); err != nil || p.Pin() != PinConfig {
		t.Errorf("setting the default is no pin: %v", err)
	}
	c, err = e.Unset(t.Context(), image)
	say(c, err, "you are asked")
	if p, err := LoadTerminal(e.Home, Options{}, TerminalInput{}); err != nil || p.Pin() != NoPin {
		t.Errorf("unset does not open the question again: %v", err)
	}
	testkit.WriteTree(t, e.Home.Dir, map[string]string{".env": "TERMINAL_DOCKER_IMAGE=x\n"})
	c, err = e.Set(t.Context(), image, "y")
	say(c, err, "pins")
	c, err = e.Unset(t.Context(), image)
	say(c, err, "TERMINAL_DOCKER_IMAGE in .env decides now")
	c, err = e.Set(t.Context(), []string{"x"}, "y")
	say(c, err, "")
}

func TestEditConcurrent(t *testing.T) {
	t.Parallel()
	e := editor(t, "a: 1\n")
	e.LockWait = 10 * time.Minute
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if _, err := e.Set(t.Context(), []string{"n", fmt.Sprint("k", i)}, "1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	c, err := Load(e.Home, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.With(nil).Map("n"); err != nil || len(m) != 12 {
		t.Errorf("%d of 12 edits are there: %v", len(m), err)
	}
}

// TestEditForeignWriter writes the file while an edit is staged: that write must survive.
func TestEditForeignWriter(t *testing.T) {
	t.Parallel()
	e := editor(t, "a: 1\n")
	e.Files.Before = func(op atomicfile.Op, path string) error {
		if op == atomicfile.OpSync && strings.HasPrefix(filepath.Base(path), ".config.yaml") {
			return os.WriteFile(e.Home.Config(), []byte("a: 1\nforeign: 2\n"), 0o600)
		}
		return nil
	}
	_, err := e.Set(t.Context(), []string{"b"}, "1")
	if !errors.Is(err, ErrChanged) {
		t.Errorf("got %v", err)
	}
	if got := e.text(t); got != "a: 1\nforeign: 2\n" {
		t.Errorf("got %q", got)
	}
}

// TestEditFails fails the write at every step in turn: the file is old or new, and nothing
// is left beside it.
func TestEditFails(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for n := 0; ; n++ {
		e := editor(t, "a: 1\n")
		step := 0
		e.Files.Before = func(atomicfile.Op, string) error {
			if step++; step-1 == n {
				return boom
			}
			return nil
		}
		_, err := e.Set(t.Context(), []string{"a"}, "2")
		if got := e.text(t); got != "a: 1\n" && got != "a: 2\n" {
			t.Errorf("step %d: %q", n, got)
		}
		for f := range testkit.ReadTree(t, e.Home.Dir) {
			if f != "config.yaml" && !strings.HasPrefix(f, home.StateDir) {
				t.Errorf("step %d left %s", n, f)
			}
		}
		if err == nil {
			if n < 5 {
				t.Errorf("only %d steps", n)
			}
			return
		}
		if !errors.Is(err, boom) {
			t.Fatalf("step %d: %v", n, err)
		}
	}
}

func TestEditLocked(t *testing.T) {
	t.Parallel()
	e := editor(t, "a: 1\n")
	e.LockWait = 10 * time.Millisecond
	release, err := e.Home.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Set(t.Context(), []string{"a"}, "2"); exitcode.Of(err) != exitcode.Locked {
		t.Errorf("got %v", err)
	}
	if _, err := e.Set(t.Context(), []string{"a"}, "1"); err != nil {
		t.Errorf("nothing to do needs no lock: %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Set(ctx, []string{"a"}, "2"); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestEditThroughLink(t *testing.T) {
	t.Parallel()
	e := editor(t, "-")
	target := filepath.Join(t.TempDir(), "dot.yaml")
	if err := errors.Join(os.WriteFile(target, []byte("a: 1\n"), 0o640), os.Symlink(target, e.Home.Config())); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Set(t.Context(), []string{"a"}, "2"); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(e.Home.Config()); err != nil || to != target || e.text(t) != "a: 2\n" {
		t.Errorf("the link is gone: %q, %v", to, err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is gone: %v", err)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	c := parse(t, sample+"ref: ${X}\nm: &m {a: [1, 0x10]}\nn: *m\n", "only: {admin: yes}\n")
	for _, row := range []struct {
		path  string
		value any
		text  string
		from  Origin
		file  string
		line  int
	}{
		{"terminal.backend", "local", `"local"`, User, "config.yaml", 5},
		{"terminal.lifetime_seconds", int64(300), "300", Default, defaultsFile, 11},
		{"only.admin", true, "yes", Admin, "/etc/hermes/config.yaml", 1},
		{"ref", "${X}", "${X}", User, "config.yaml", 14},
		{"n.a", []any{int64(1), int64(16)}, "[1, 0x10]", User, "config.yaml", 15},
		{"display", map[string]any{"skin": "dark", "size": int64(3)}, "{skin: dark, size: 3}", User, "config.yaml", 13},
	} {
		path, _ := ParsePath(row.path)
		got, err := c.Get(path...)
		want := Entry{path, row.value, row.text, row.from, row.file, row.line}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", row.path, got, err, want)
		}
	}
	_, err := c.Get("terminal", "timout")
	if !errors.Is(err, ErrNoKey) || !strings.Contains(err.Error(), "did you mean terminal.timeout?") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Get(); err != nil {
		t.Errorf("the whole: %v", err)
	}
	if _, err := parse(t, "terminal: x\n", "-").Get("terminal", "backend"); !errors.Is(err, ErrType) {
		t.Errorf("got %v", err)
	}
}

// FuzzSet sets any value at any key of any file: it is refused, or the file then says that
// value, and taking the key out again says what the file said before.
func FuzzSet(f *testing.F) {
	f.Add(sample, "terminal.x", "hello")
	f.Add(sample, "display.a", "[a, {b: c}]")
	f.Add("{\"a\": {\"b\": 1}}", "a.c", "x: y")
	f.Add("a: &x {b: 1}\r\nc:\r\n  d: [1,\r\n 2]", "c.d", "'q'")
	f.Fuzz(func(t *testing.T, text, key, value string) {
		path, err := ParsePath(key)
		if err != nil || editable(path) != nil {
			return
		}
		v, err := parseValue(path, value)
		if err != nil {
			return
		}
		d, err := newDraft(File{"config.yaml", []byte(text)}, path)
		if err != nil || d.set(v) != nil {
			return
		}
		c, err := Parse(File{"config.yaml", d.doc.Bytes()}, File{})
		if err != nil {
			t.Fatalf("%q with %s = %q gives %q: %v", text, key, value, d.doc.Bytes(), err)
		}
		e, err := c.Get(path...)
		if err != nil || e.Origin != User {
			t.Fatalf("%q with %s = %q gives %q: %+v, %v", text, key, value, d.doc.Bytes(), e, err)
		}
		want, _ := decodeText(v.texts[0])
		if !reflect.DeepEqual(e.Value, want) && fmt.Sprint(e.Value) != fmt.Sprint(want) {
			if _, known := c.known(path); !known {
				t.Fatalf("%q with %s = %q gives %q, which says %#v, want %#v", text, key, value, d.doc.Bytes(), e.Value, want)
			}
		}
		_ = yamlspan.PathString(path)
	})
}
