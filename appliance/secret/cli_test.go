// SPDX-License-Identifier: MIT

package secret

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// bin is a directory of programs and the home that uses them.
type bin struct {
	dir string
	in  Input
}

// newBin makes an input whose children get PATH and the variables of base.
func newBin(tb testing.TB, own map[string]string, base ...string) bin {
	tb.Helper()
	b := bin{dir: tb.TempDir()}
	h := tb.TempDir()
	b.in = Input{Home: home.Home{Dir: h, Profile: "bot"}, Key: home.Key(h), Vars: map[string]Text{}, Own: map[string]Text{}, Run: Exec{}}
	for k, v := range own {
		b.in.Vars[k], b.in.Own[k] = Wrap(v), Wrap(v)
	}
	b.in.Env = func(kind string) []string {
		return append([]string{"PATH=relative" + string(os.PathListSeparator) + b.dir, "KIND=" + kind}, base...)
	}
	return b
}

// env is what a child must get: PATH, the kind and what is given.
func (b bin) env(kind string, more ...string) map[string]string {
	return split(append(b.in.Env(kind)[:2:2], more...))
}

func values(f Fetched) map[string]string { return plain(f.Values) }

func op(refs map[string]string) *OnePassword {
	return &OnePassword{Is: Spec{Enabled: true, Refs: refs}}
}

func TestOnePassword(t *testing.T) {
	t.Parallel()
	foreign := []string{EnvOnePassword + "=launch-token", "OP_SESSION_a=launch", "OP_CONNECT_TOKEN=launch", "op_account=launch"}
	for name, c := range map[string]struct {
		own  map[string]string
		base []string
		env  []string
		src  *OnePassword
	}{
		"token":             {map[string]string{EnvOnePassword: " tok ", "OTHER": "x"}, nil, []string{EnvOnePassword + "=tok"}, &OnePassword{}},
		"other name":        {map[string]string{"MY_TOKEN": "tok", EnvOnePassword: "wrong"}, []string{"MY_TOKEN=launch"}, []string{EnvOnePassword + "=tok"}, &OnePassword{TokenEnv: "MY_TOKEN"}},
		"other name, unset": {map[string]string{EnvOnePassword: "wrong"}, nil, nil, &OnePassword{TokenEnv: "MY_TOKEN"}},
		"no token":          {nil, foreign, nil, &OnePassword{}},
		"own session":       {map[string]string{"OP_SESSION_b": "mine", "OP_ACCOUNT": "acc"}, foreign, []string{"OP_SESSION_b=mine", "OP_ACCOUNT=acc"}, &OnePassword{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBin(t, c.own, c.base...)
			install(t, b.dir, "op", fake{Env: b.env("op", append(c.env, "NO_COLOR=1")...), Items: map[string]string{
				"op://v/a/f": "value a", "op://v/b/f": " spaced \t", "op://v/pem/f": "-----BEGIN\nx\n-----END\n", "op://v/empty/f": " ",
			}})
			c.src.Is.Refs = map[string]string{"A": "op://v/a/f", "B": "op://v/b/f", "P": "op://v/pem/f", "E": "op://v/empty/f", "N": "op://v/none/f", "X": "--account=x"}
			got, err := c.src.Fetch(t.Context(), b.in)
			refused(t, b.dir)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"A": "value a", "B": " spaced \t", "P": "-----BEGIN\nx\n-----END"}
			if diff := cmp.Diff(want, values(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]Reason{"E": NoValue, "N": NotFound, "X": NotFound}, got.Failed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOnePasswordAccount(t *testing.T) {
	t.Parallel()
	b := newBin(t, nil)
	install(t, b.dir, "op", fake{Argv: []string{"read", "--account", "acc", "--", "op://v/a/f"}, Env: b.env("op", "NO_COLOR=1"), Out: "x\r\n"})
	src := &OnePassword{Is: Spec{Refs: map[string]string{"A": "op://v/a/f"}}, Account: "acc", Binary: filepath.Join(b.dir, "op")}
	got, err := src.Fetch(t.Context(), b.in)
	refused(t, b.dir)
	if diff := cmp.Diff(map[string]string{"A": "x"}, values(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func bws() *Bitwarden { return &Bitwarden{Is: Spec{Enabled: true}, Project: "p-1"} }

func bwsArgv() []string { return []string{"secret", "list", "p-1", "--output", "json"} }

func TestBitwarden(t *testing.T) {
	t.Parallel()
	const list = `[{"id":"1","key":"A","value":"va"},{"key":"B","value":"old"},{"key":"B","value":"vb"},{"key":null,"value":"x"},{"id":"2"}]`
	for name, c := range map[string]struct {
		own map[string]string
		src *Bitwarden
		env []string
	}{
		"token":      {map[string]string{EnvBitwarden: "tok"}, bws(), []string{EnvBitwarden + "=tok"}},
		"other name": {map[string]string{"T": "tok", EnvBitwarden: "wrong"}, &Bitwarden{Project: "p-1", TokenEnv: "T"}, []string{EnvBitwarden + "=tok"}},
		"server":     {map[string]string{EnvBitwarden: "tok", "BWS_SERVER_URL": "own"}, &Bitwarden{Project: "p-1", Server: "https://eu"}, []string{EnvBitwarden + "=tok", "BWS_SERVER_URL=https://eu"}},
		"own server": {map[string]string{EnvBitwarden: "tok", "BWS_SERVER_URL": "own"}, bws(), []string{EnvBitwarden + "=tok", "BWS_SERVER_URL=own"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBin(t, c.own, EnvBitwarden+"=launch", "BWS_SERVER_URL=launch", "T=launch")
			env := c.env
			if c.src.TokenEnv == "" {
				env = append(env, "T=launch") // means nothing to this source
			}
			install(t, b.dir, "bws", fake{Argv: bwsArgv(), Env: b.env("bws", append(env, "NO_COLOR=1")...), Out: list})
			got, err := c.src.Fetch(t.Context(), b.in)
			refused(t, b.dir)
			if diff := cmp.Diff(map[string]string{"A": "va", "B": "vb"}, values(got)); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			if got.Ignored != 2 {
				t.Errorf("ignored %d", got.Ignored)
			}
		})
	}
	t.Run("installed in the home", func(t *testing.T) {
		t.Parallel()
		b := newBin(t, map[string]string{EnvBitwarden: "tok"})
		dir := filepath.Join(b.in.Key, "bin")
		write(t, filepath.Join(dir, "x"), "")
		install(t, dir, "bws", fake{Argv: bwsArgv(), Env: b.env("bws", EnvBitwarden+"=tok", "NO_COLOR=1"), Out: "[]"})
		got, err := bws().Fetch(t.Context(), b.in)
		if err != nil || len(got.Values) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out     string
		want    map[string]string
		ignored int
		err     Reason
	}{
		"lines":          {"# c\nA=1\nexport B=\"two\" # c\nnot an assignment\n", map[string]string{"A": "1", "B": "two"}, 0, ""},
		"CRLF":           {"A=1\r\nB=2\r\n", map[string]string{"A": "1", "B": "2"}, 0, ""},
		"JSON":           {` {"A":"1","B":"x\ny","n":2,"bad-name":"x","o":{}}`, map[string]string{"A": "1", "B": "x\ny"}, 3, ""},
		"JSON nothing":   {`{}`, map[string]string{}, 0, ""},
		"nothing":        {" \n", map[string]string{}, 0, ""},
		"bad names":      {"A=1\nb-c=2\n1D=3\n=4\n", map[string]string{"A": "1"}, 2, ""},
		"empty values":   {"A=1\nB=\nC=' '\n", map[string]string{"A": "1"}, 2, ""},
		"bare value":     {"s3cr3t\n", nil, 0, Garbage},
		"bare base64":    {"czNjcjN0\n", nil, 0, Garbage},
		"padded base64":  {"czNjcjN0YQ==\n", nil, 0, Garbage},
		"HTML":           {"<html><a href='x'>login</a></html>", nil, 0, Garbage},
		"binary":         {"A=\xff\xfe1\n", nil, 0, Garbage},
		"NUL":            {"A=1\x00\n", nil, 0, Garbage},
		"broken JSON":    {`{"A":"1"`, nil, 0, Garbage},
		"JSON and lines": {"{\"A\":\"1\"}\nB=2", nil, 0, Garbage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := parseOutput([]byte(c.out))
			if ok != (c.err == "") {
				t.Fatalf("got %v, %v", got, ok)
			}
			if !ok {
				return
			}
			if diff := cmp.Diff(c.want, values(got)); diff != "" || got.Ignored != c.ignored {
				t.Errorf("ignored %d: %s", got.Ignored, diff)
			}
		})
	}
}

func TestCommandRuns(t *testing.T) {
	t.Parallel()
	testkit.Need(t, "posix", runtime.GOOS != "windows", "needs /bin/sh")
	b := newBin(t, map[string]string{"VAULT_TOKEN": "mine", "A B": "no name"}, "VAULT_TOKEN=launch", "HOME=/h")
	c := &Command{Is: Spec{Name: "command", Shape: Bulk}, Shell: `echo "A=$VAULT_TOKEN $KIND $HOME"; echo "B=$HERMES_HOME"; echo "C=$PWD"; echo secret on stderr >&2`}
	got, err := c.Fetch(t.Context(), b.in)
	want := map[string]string{"A": "mine command /h", "B": b.in.Home.Dir, "C": b.in.Key}
	if diff := cmp.Diff(want, values(got)); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

func TestPlugin(t *testing.T) { // its parts are in order
	own := map[string]string{"PLUG_TOKEN": "mine", "OTHER": "not for it"}
	b := newBin(t, own, "PLUG_TOKEN=launch", "plug_token=launch", "SECOND=launch")
	env := b.env("plugin", "PLUG_TOKEN=mine", home.EnvHome+"="+b.in.Home.Dir)
	argv := []string{"fetch", "--all"}
	is := Spec{Name: "plug", Protected: []string{"PLUG_TOKEN", "second"}, Plugin: true}
	t.Run("bulk", func(t *testing.T) {
		install(t, b.dir, "helper", fake{Argv: argv, Env: env, Out: "A=1"})
		c := &Command{Is: is, Args: append([]string{"helper"}, argv...)}
		c.Is.Shape = Bulk
		got, err := c.Fetch(t.Context(), b.in)
		refused(t, b.dir)
		if diff := cmp.Diff(map[string]string{"A": "1"}, values(got)); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	})
	t.Run("mapped", func(t *testing.T) {
		install(t, b.dir, "helper", fake{Argv: argv, Env: env, Stdin: `{"A":"x://a","B":"x://b"}`, Out: `{"A":"1","C":"not asked for"}`})
		c := &Command{Is: is, Args: append([]string{"helper"}, argv...)}
		c.Is.Refs = map[string]string{"A": "x://a", "B": "x://b"}
		got, err := c.Fetch(t.Context(), b.in)
		refused(t, b.dir)
		if diff := cmp.Diff(map[string]string{"A": "1"}, values(got)); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		if got.Ignored != 1 || got.Failed["B"] != NoValue {
			t.Errorf("got %+v", got)
		}
	})
}

// TestFetchFails runs programs that misbehave. No failure takes the hour that such a program sleeps,
// and none shows what it printed.
func TestFetchFails(t *testing.T) {
	t.Parallel()
	const shown = "s3cr3t"
	tok := map[string]string{EnvBitwarden: shown, EnvOnePassword: shown}
	for name, c := range map[string]struct {
		src  func(b bin) Source
		prog string
		f    fake
		own  map[string]string
		want Reason
	}{
		"bws hangs":        {nil, "bws", fake{Mode: "hang"}, tok, TimedOut},
		"bws floods":       {nil, "bws", fake{Mode: "flood"}, tok, TooLong},
		"bws garbage":      {nil, "bws", fake{Out: "\xff\x00" + shown}, tok, Garbage},
		"bws object":       {nil, "bws", fake{Out: `{"key":"` + shown + `"}`}, tok, Garbage},
		"bws null":         {nil, "bws", fake{Out: `null`}, tok, Garbage},
		"bws silent":       {nil, "bws", fake{}, tok, Garbage},
		"bws exits":        {nil, "bws", fake{Out: "[]", Err: "Error: " + shown, Code: 1}, tok, Exited},
		"bws unauthorized": {nil, "bws", fake{Err: "[400 Bad Request] {\"error\":\"invalid_client\"} " + shown, Code: 1}, tok, AuthFailed},
		"bws no network":   {nil, "bws", fake{Err: "error sending request: dns error " + shown, Code: 1}, tok, Network},
		"bws not there":    {nil, "", fake{}, tok, BinaryMissing},
		"bws no token":     {nil, "bws", fake{}, nil, NotConfigured},
		"bws bad project":  {func(bin) Source { return &Bitwarden{Project: "--help"} }, "bws", fake{}, tok, NotConfigured},
		"op hangs":         {func(bin) Source { return op(map[string]string{"A": "op://a/b/c", "B": "op://a/b/d"}) }, "op", fake{Mode: "hang", Items: map[string]string{"op://a/b/c": "", "op://a/b/d": ""}}, tok, TimedOut},
		"op not signed in": {func(bin) Source { return op(map[string]string{"A": "op://a/b/c"}) }, "op", fake{Argv: []string{"read", "--", "op://a/b/c"}, Err: "[ERROR] You are not currently signed in. " + shown, Code: 1}, tok, AuthFailed},
		"op not there":     {func(bin) Source { return op(map[string]string{"A": "op://a/b/c"}) }, "", fake{}, tok, BinaryMissing},
		"op relative": {func(bin) Source {
			return &OnePassword{Is: Spec{Refs: map[string]string{"A": "op://a/b/c"}}, Binary: "./op"}
		}, "op", fake{}, tok, BinaryMissing},
		"op nothing mapped": {func(bin) Source { return op(nil) }, "op", fake{}, tok, NotConfigured},
		"command exits": {func(bin) Source {
			return &Command{Is: Spec{Name: "command", Shape: Bulk}, Shell: "echo A=" + shown + "; exit 3"}
		}, "", fake{}, tok, Exited},
		"command empty": {func(bin) Source { return &Command{Is: Spec{Name: "command", Shape: Bulk}, Shell: " "} }, "", fake{}, tok, NotConfigured},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBin(t, c.own)
			if c.prog != "" {
				if c.f.Argv == nil && c.prog == "bws" {
					c.f.Argv = bwsArgv()
				}
				c.f.Env = b.env(c.prog, map[string]string{"bws": EnvBitwarden, "op": EnvOnePassword}[c.prog]+"="+shown, "NO_COLOR=1")
				install(t, b.dir, c.prog, c.f)
			}
			var src Source = bws()
			if c.src != nil {
				src = c.src(b)
			}
			spec := src.Spec()
			spec.Budget = 10 * time.Minute
			if c.want == TimedOut {
				spec.Budget = 1500 * time.Millisecond
			}
			r := askOne(t.Context(), member{src, spec}, b.in)
			refused(t, b.dir)
			if r.report.Err == nil || r.report.Err.Reason != c.want {
				t.Fatalf("got %v, want %s", r.report.Err, c.want)
			}
			if text := fmt.Sprintf("%v %+v", r.report.Err, r.report); strings.Contains(text, shown) {
				t.Errorf("the report shows a secret: %s", text)
			}
		})
	}
}
