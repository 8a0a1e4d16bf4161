// SPDX-License-Identifier: MIT

package secret

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// given writes a credentials directory.
func given(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func TestReadCredentials(t *testing.T) {
	t.Parallel()
	got, err := ReadCredentials(given(t, map[string]string{
		"OPENAI_API_KEY": "sk-1\n", "TWO_LINES": "a\nb\n\n", "env": "# from the vault\nexport A='x y'\r\nB=2\n\n",
		"work.env": "A=w", "work.GROQ_API_KEY": "g", ".mounted": "no",
	}))
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]map[string]string{}
	for profile, values := range got {
		shown[profile] = map[string]string{}
		for name, text := range values {
			shown[profile][name] = text.Reveal()
		}
	}
	want := map[string]map[string]string{
		"":     {"OPENAI_API_KEY": "sk-1", "TWO_LINES": "a\nb\n", "A": "x y", "B": "2"},
		"work": {"A": "w", "GROQ_API_KEY": "g"},
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestCredentialsAreRefused: what cannot be used is named, with the file and never the value.
func TestCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a name that is no variable":    {map[string]string{"tls-key": "s3cret"}, "tls-key: its name says nothing"},
		"a profile that is none":        {map[string]string{"Work.A": "s3cret"}, "Work.A: its name"},
		"two dots":                      {map[string]string{"work.a.b": "s3cret"}, "work.a.b: its name"},
		"nothing in it":                 {map[string]string{"KEY": "\n"}, "KEY is empty"},
		"no text":                       {map[string]string{"KEY": "s3cret\xff"}, "KEY is no text"},
		"a zero byte":                   {map[string]string{"KEY": "s3cret\x00"}, "KEY is no text"},
		"a list without lines":          {map[string]string{"env": "# nothing\n"}, "env: has no NAME=value"},
		"a list with an odd line":       {map[string]string{"env": "A=1\ns3cret\n"}, "env: line 2: want NAME=value"},
		"a list with an odd name":       {map[string]string{"env": "A=1\ns3 cret=1\n"}, "env: line 2: want NAME=value"},
		"a list with an empty value":    {map[string]string{"env": "A=\n"}, "env: A is empty"},
		"a list that says a name twice": {map[string]string{"env": "A=s3cret\nA=2\n"}, "env: line 2: A is there twice"},
		"a name in two files":           {map[string]string{"env": "A=s3cret\n", "A": "2"}, "another credential has A"},
		"a list that is no text":        {map[string]string{"env": "A\x00=s3cret\n"}, "env: is no list"},
		"one that is too large":         {map[string]string{"A": strings.Repeat("x", maxCredential+1)}, "A: is larger"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadCredentials(given(t, c.files))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") || got != nil {
				t.Errorf("got %v, %v; want %q", got, err, c.want)
			}
		})
	}
	dir := given(t, nil)
	if err := os.Mkdir(filepath.Join(dir, "A"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadCredentials(dir); err == nil {
		t.Error("a directory was read")
	}
	if _, err := ReadCredentials(filepath.Join(dir, "none")); err == nil {
		t.Error("no directory was read")
	}
}

// TestCredentialsInScope: they beat .env, lose to an overriding vault and the administrator, open
// vaults, and are the home's own.
func TestCredentialsInScope(t *testing.T) {
	t.Parallel()
	d := newDesk(t, "bot", "other")
	byKey := map[string]map[string]Text{
		home.Key(d.root.Dir):        {"KEY": Wrap("launch"), "TOKEN": Wrap("opens")},
		home.Key(d.home("bot").Dir): {"KEY": Wrap("bot"), "BOTH": Wrap("given"), "M": Wrap("given"), "V": Wrap("given"), "TOKEN": Wrap("opens bot")},
	}
	d.c.Credentials = func(key string) map[string]Text { return maps.Clone(byKey[key]) }
	d.managed = filepath.Join(t.TempDir(), ".env")
	write(t, d.managed, "M=admin\n")
	d.dotenv("bot", "BOTH=file\nTOKEN=old\nFILE=file\n")
	fills := source("fills", Bulk, map[string]string{"KEY": "vault", "NEW": "vault"})
	beats := source("beats", Bulk, map[string]string{"V": "vault"})
	beats.spec.OverrideExisting = true
	d.sources("bot", fills, beats)
	check(t, d.scope("bot"), map[string]string{
		"KEY": "bot credential", "BOTH": "given credential", "TOKEN": "opens bot credential", "FILE": "file dotenv",
		"NEW": "vault source:fills", "V": "vault source:beats", "M": "admin managed",
	})
	if got := fills.in.Own["TOKEN"].Reveal(); got != "opens bot" {
		t.Errorf("the vault got %q", got)
	}
	check(t, d.scope(home.Default), map[string]string{"KEY": "launch credential", "TOKEN": "opens credential", "M": "admin managed"})
	check(t, d.scope("other"), map[string]string{"M": "admin managed"})
	sc := d.scope("bot")
	sc.Set("BOTH", Wrap("written"))
	if v, _ := sc.Lookup("BOTH"); v.Text.Reveal() != "given" {
		t.Errorf("a line in .env hides a credential: %q", v.Text.Reveal())
	}
}

func TestCredentialsOfTheLaunchProfile(t *testing.T) {
	t.Parallel()
	c := Credentials{"": {"A": Wrap("1")}, "work": {"B": Wrap("2")}, "default": {"C": Wrap("3")}}
	for _, x := range []struct{ profile, launch, want string }{
		{"work", "work", "A B"}, {"default", "work", "C"}, {"default", "default", "A C"}, {"work", "default", "B"}, {"none", "default", ""},
	} {
		got, err := c.For(x.profile, x.launch)
		if names := strings.Join(sorted(got), " "); err != nil || names != x.want {
			t.Errorf("%s of %s: %s, %v", x.profile, x.launch, names, err)
		}
	}
	c["work"]["A"] = Wrap("other")
	if _, err := c.For("work", "work"); err == nil || !strings.Contains(err.Error(), "work.A") {
		t.Errorf("a name under two names: %v", err)
	}
}
