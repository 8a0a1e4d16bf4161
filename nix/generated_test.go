// SPDX-License-Identifier: MIT

package nix

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/cli"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// program runs one command line in process and returns what it prints.
func program(t *testing.T, args ...string) []byte {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Main(t.Context(), args, cli.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs,
		Getenv: func(string) string { return "" }, Now: time.Now,
	})
	if code != exitcode.OK {
		t.Fatalf("%v: exit %d: %s", args, code, errs.String())
	}
	return out.Bytes()
}

type option struct {
	Section string `json:"section"`
	Name    string `json:"name"`
	Value   string `json:"value"`
}

type unitFile struct {
	Name    string   `json:"name"`
	Options []option `json:"options"`
}

// rendered asks the program for a unit.
func rendered(t *testing.T, args ...string) []unitFile {
	t.Helper()
	var doc struct{ Result struct{ Files []unitFile } }
	if err := json.Unmarshal(program(t, append([]string{"service", "unit", "--json"}, args...)...), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Result.Files) == 0 {
		t.Fatalf("%v: no unit", args)
	}
	return doc.Result.Files
}

// placeholders stand for what only a configuration of NixOS knows.
func placeholders() []string {
	return []string{
		"--home", "/@home@", "--writable", "/@state@", "--writable", "/@work@", "--program", "/@program@",
		"--account", "account_placeholder", "--group", "group_placeholder", "--account-home", "/@state@",
	}
}

// TestUnitCurrent: the modules' units are the program's own, with placeholders.
func TestUnitCurrent(t *testing.T) {
	t.Parallel()
	units := map[string]map[string][]unitFile{}
	for _, scope := range []string{"system", "user"} {
		units[scope] = map[string][]unitFile{}
		for _, hardening := range []string{"balanced", "agent", "none"} {
			units[scope][hardening] = rendered(t, append(placeholders(), "--scope", scope, "--hardening", hardening)...)
		}
	}
	for _, f := range rendered(t, "--socket", "api_server=@listen@") {
		if strings.HasSuffix(f.Name, ".socket") {
			units["sockets"] = map[string][]unitFile{"api_server": {f}}
		}
	}
	golden(t, "unit.json", units)
}

type legacyValue struct {
	Path  []string `json:"path,omitempty"`
	Name  string   `json:"name,omitempty"`
	Value any      `json:"value"`
	Step  int      `json:"step"`
}

// TestLegacyCurrent: the modules warn about exactly the values that the ladder removes.
func TestLegacyCurrent(t *testing.T) {
	t.Parallel()
	doc := map[string][]legacyValue{}
	for _, c := range migrate.CopiedDefaults() {
		if c.File == migrate.FileEnv {
			doc["environment"] = append(doc["environment"], legacyValue{Name: c.Path[0], Value: c.Value, Step: c.Step})
			continue
		}
		doc["settings"] = append(doc["settings"], legacyValue{Path: c.Path, Value: c.Value, Step: c.Step})
	}
	golden(t, "legacy.json", doc)
}

func golden(t *testing.T, path string, v any) {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, path, b.Bytes())
	if t.Failed() {
		t.Log("refresh with: go test ./nix -update")
	}
}
