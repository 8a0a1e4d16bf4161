// SPDX-License-Identifier: MIT

package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"terminal":                    {"terminal"},
		"terminal.docker_image":       {"terminal", "docker_image"},
		`model."grok-4.6".x`:          {"model", "grok-4.6", "x"},
		`model.'grok-4.6'.x`:          {"model", "grok-4.6", "x"},
		`"a.b"."c.d"`:                 {"a.b", "c.d"},
		`a."".b`:                      {"a", "", "b"},
		`'it''s'`:                     {"it's"},
		`"tab\tx"`:                    {"tab\tx"},
		"mcp_servers.my server.url":   {"mcp_servers", "my server", "url"},
		"a:b.c#d":                     {"a:b", "c#d"},
		"provider.日本.x":               {"provider", "日本", "x"},
		"platform_toolsets.cli-1.2x.": nil,
		"":                            nil,
		".":                           nil,
		"a..b":                        nil,
		".a":                          nil,
		`a."b`:                        nil,
		`a."b"c`:                      nil,
		`a.b"c"`:                      nil,
		`a.'b`:                        nil,
		"a[0].b":                      nil,
		`a."\q"`:                      nil,
	} {
		got, err := ParsePath(text)
		if want == nil {
			if !errors.Is(err, ErrUsage) || exitcode.Of(err) != exitcode.Usage {
				t.Errorf("%q: got %q, %v; want a usage error", text, got, err)
			}
			continue
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

// FuzzParsePath checks that every path survives being shown and read, and that every text
// that is read is shown as one that means the same.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"a", "a.b", `"a.b".c`, "a b\x00c", "\xff.x", "'", `\`, "[x]", "\u2028", "a\r.b"} {
		f.Add(s, "tail")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		path := append(strings.Split(a, "/"), b)
		got, err := ParsePath(yamlspan.PathString(path))
		if err != nil || !slices.Equal(got, path) {
			t.Fatalf("%q is shown as %s and read as %q, %v", path, yamlspan.PathString(path), got, err)
		}
		if read, err := ParsePath(a); err == nil {
			again, err := ParsePath(yamlspan.PathString(read))
			if err != nil || !slices.Equal(again, read) {
				t.Fatalf("%q means %q, which is shown as %s and read as %q, %v", a, read, yamlspan.PathString(read), again, err)
			}
		}
	})
}
