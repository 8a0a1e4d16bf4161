// SPDX-License-Identifier: MIT

package childenv

import (
	"strings"
	"testing"
)

// TestM10: entries that are no names break nothing. TestM11 is TestLists: NOUS_API_KEY and
// QWEN_API_KEY are listed, and nothing is discovered.
func TestM10(t *testing.T) {
	t.Parallel()
	newStore(t, map[string]string{photon: `
requires_env: [1, null, [A_KEY], {password: true}, {name: 7, secret: true}, {name: [B_KEY]}, "NOT A NAME_KEY", "X=Y_KEY", "", GOOD_KEY, {name: GOOD_TOKEN}]
optional_env: GOOD_SECRET
`}).want(t, false, "GOOD_KEY", "GOOD_TOKEN")
}

// TestSecretIff is §3.1.
func TestSecretIff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		entry string
		want  bool
	}{
		{"A_TOKEN", true},
		{"A_SECRET", true},
		{"A_KEY", true},
		{"A_PASSWORD", true},
		{"A_JSON", true},
		{"a_token", true},
		{"A_URL", false},
		{"A_TOKENS", false},
		{"{name: A_URL, password: true}", true},
		{"{name: A_URL, secret: true}", true},
		{"{name: A_URL, password: yes}", true},
		{"{name: A_URL, password: 'true'}", true},
		{"{name: A_URL, secret: 1}", true},
		{"{name: A_URL, secret: 0}", false},
		{"{name: A_KEY, password: false}", false},
		{"{name: A_KEY, password: no}", false},
		{"{name: A_KEY, secret: false}", true},
		{"{name: A_KEY, password: false, secret: true}", true},
		{"{name: A_KEY, password: null}", true},
		{"{name: A_KEY, password: ''}", true},
		{"{name: A_KEY, password: true, password: false}", false},
		{"{name: A_KEY, description: password}", true},
		{"&x {name: A_KEY}", true},
		{"*e", true},
		{"{<<: *b, name: A_URL}", true},
		{"{<<: *b, name: A_KEY, password: false}", false},
		{"*n", true},
	}
	for _, tt := range tests {
		src := "e: &e {name: A_URL, secret: true}\nb: &b {password: true}\nn: &n A_KEY\noptional_env:\n- " + tt.entry + "\n"
		s := newStore(t, map[string]string{photon: src})
		d, err := s.Read("key", s.home)
		if err != nil || d.Partial && !strings.Contains(tt.entry, "true, password") || (len(d.Names) == 1) != tt.want && !d.Partial {
			t.Errorf("%s: %v, %v; want secret %v", tt.entry, d, err, tt.want)
		}
	}
}

// TestKind: a flat plugin counts if it says that it is a platform; the first declaration of
// a name wins.
func TestKind(t *testing.T) {
	t.Parallel()
	s := newStore(t, map[string]string{
		photon:                       "requires_env: [IMPLIED_KEY, {name: FIRST_KEY, password: false}]\noptional_env: [FIRST_KEY, OPTIONAL_KEY]\n",
		"plugins/tool/plugin.yaml":   "kind: tool\nrequires_env: [TOOL_KEY]\n",
		"plugins/none/plugin.yaml":   "requires_env: [NONE_KEY]\n",
		"plugins/list/plugin.yaml":   "kind: [platform]\nrequires_env: [LIST_KEY]\n",
		"plugins/second/plugin.yaml": secretManifest("FIRST_KEY", "SECOND_KEY"),
		"plugins/big/plugin.yaml":    strings.Repeat("#", maxManifest) + "\n" + secretManifest("BIG_KEY"),
	})
	d := s.want(t, true, "IMPLIED_KEY", "OPTIONAL_KEY", "SECOND_KEY")
	if len(d.Warnings) != 1 || !strings.Contains(d.Warnings[0].Error(), "larger") {
		t.Errorf("warnings %v", d.Warnings)
	}
}

// FuzzManifest: no manifest, whatever it holds, stops the gateway or declares a core name.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(secretManifest("A_KEY", "PATH")))
	f.Add([]byte("a: &a [*a]\nrequires_env: *a\n"))
	f.Add([]byte("? x\n: y\n<<: {<<: *z}\nkind: platform\noptional_env: [{<<: {name: A_KEY}}]\n"))
	p, err := Load()
	if err != nil {
		f.Fatal(err)
	}
	m := p.NewManifests()
	f.Fuzz(func(t *testing.T, src []byte) {
		secret := map[string]bool{}
		_ = m.declared(src, true, secret)
		for name := range secret {
			if p.Core(name) || !envName.MatchString(name) {
				t.Errorf("declares %q", name)
			}
		}
	})
}
