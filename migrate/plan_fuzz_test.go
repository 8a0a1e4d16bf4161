// SPDX-License-Identifier: MIT

package migrate

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// FuzzPlan: whatever the files hold, planning ends in a refusal or in a plan whose result
// has nothing more to do, and never in a panic or a changed input.
func FuzzPlan(f *testing.F) {
	for _, name := range homeNames(f) {
		in := frozenHome(f, name)
		f.Add(in.Config, in.Env, in.Soul, uint8(0))
		f.Add(in.Config, in.Env, in.Soul, uint8(46))
	}
	for _, config := range []string{
		"", "{}", "a: 1\n---\nb: 2\n", "terminal: {docker_image: " + py311 + "}\r\n", "? [a]\n: b\n", "_config_version: 49.9\n", "{\"_config_version\":47}",
		"_config_version: 48\r\nterminal:\r  vercel_runtime: node24\r\n", "custom_providers: [{base_url: http://a, name: b}]\n", "mcp_servers: {a: {disabled: on}}\n",
		"_config_version: 30\nagent: &a\nb: *a\n", "_config_version: 38\nplatform_toolsets: {cli: [bfl, web,]}\n", "compression:\n  summary_model: ${X}\nauxiliary: {}\n",
	} {
		f.Add([]byte(config), []byte("TERMINAL_VERCEL_RUNTIME=node24"), []byte("## Messaging other agents\n"), uint8(12))
	}
	f.Fuzz(func(t *testing.T, config, env, soul []byte, assume uint8) {
		in := Input{Config: config, Env: env, Soul: soul, Plugins: func() ([]string, error) { return []string{"a", "on"}, nil }}
		if in.Config == nil {
			in.Config = []byte{}
		}
		kept := [3][]byte{bytes.Clone(in.Config), bytes.Clone(in.Env), bytes.Clone(in.Soul)}
		o := Options{}
		if assume >= Floor && int(assume) <= Latest() {
			o.Assume = int(assume)
		}
		p, err := Released().Plan(in, o)
		if !bytes.Equal(in.Config, kept[0]) || !bytes.Equal(in.Env, kept[1]) || !bytes.Equal(in.Soul, kept[2]) {
			t.Fatal("the input was changed")
		}
		var r *Refusal
		if err != nil {
			if !errors.As(err, &r) || p != nil {
				t.Fatalf("got a plan %v and an error that is no refusal: %v", p, err)
			}
			if strings.Contains(r.Msg, "proof failed") {
				t.Logf("not proven: %v\n%q", err, config)
			}
			return
		}
		out := afterPlan(in, p)
		q, err := Released().Plan(out, Options{})
		if err != nil {
			t.Fatalf("the result is refused: %v\n%q\nbecame\n%q", err, config, out.Config)
		}
		if q.Pending() || len(q.Changes) > 0 {
			t.Fatalf("the result has more to do: %q\n%q\nbecame\n%q", changesOf(q.Changes), config, out.Config)
		}
		if _, err := p.Diff(); err != nil {
			t.Fatal(err)
		}
	})
}
