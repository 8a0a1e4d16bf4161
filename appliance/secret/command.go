// SPDX-License-Identifier: MIT

package secret

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// helperBudget is the time of secrets.command: a helper must be fast and must not ask anybody.
const helperBudget = 3 * time.Second

// Command is a source that runs a command whose output is KEY=VALUE lines, read like .env, or
// one JSON object of strings. Its error output is thrown away.
//
// The person's own helper (secrets.command) is a line for the shell and gets the whole .env
// of its home. A plugin's command is run without a shell and of .env gets the names in
// Spec.Protected only; a mapped one reads {"NAME": "ref", …} from its standard input, and what
// it prints beside those names is ignored.
type Command struct {
	Is    Spec
	Shell string   // of secrets.command
	Args  []string // of a plugin; Args[0] is absolute or looked up in PATH
}

// Spec returns c.Is with the command as the place of its values.
func (c *Command) Spec() Spec {
	s := c.Is
	s.Place = c.Shell + strings.Join(c.Args, "\x00")
	return s
}

// Fetch runs the command once.
func (c *Command) Fetch(ctx context.Context, in Input) (Fetched, error) {
	fail := func(r Reason, detail string) (Fetched, error) {
		return Fetched{}, &FetchError{Source: c.Is.Name, Reason: r, Detail: detail}
	}
	job, why := c.job(in)
	if why != "" {
		return fail(why, "")
	}
	out, err := in.Run.Run(ctx, job)
	if err != nil {
		return Fetched{}, failure(c.Is.Name, err)
	}
	if out.Code != 0 {
		return fail(Exited, fmt.Sprintf("exit %d", out.Code))
	}
	got, ok := parseOutput(out.Stdout)
	if !ok {
		return fail(Garbage, "neither KEY=VALUE lines nor a JSON object")
	}
	if c.Is.Shape == Mapped {
		c.onlyMapped(&got)
	}
	return got, nil
}

func (c *Command) job(in Input) (Job, Reason) {
	add := map[string]string{home.EnvHome: in.Home.Dir}
	keep := func(string) bool { return false }
	if c.Args == nil {
		if strings.TrimSpace(c.Shell) == "" {
			return Job{}, NotConfigured
		}
		if runtime.GOOS == "windows" {
			return Job{}, Unsupported
		}
		for name, text := range in.Own {
			if validName(name) && name != home.EnvHome {
				add[name] = text.Reveal()
			}
		}
		return Job{Args: []string{"/bin/sh", "-c", c.Shell}, Env: in.env("command", keep, add), Dir: in.Key}, ""
	}
	for _, name := range c.Is.Protected {
		if v, ok := in.Vars[name]; ok {
			add[name] = v.Reveal()
		}
	}
	job := Job{Args: c.Args, Dir: in.Key}
	job.Env = in.env("plugin", func(name string) bool {
		return slices.ContainsFunc(c.Is.Protected, func(p string) bool { return strings.ToUpper(p) == name })
	}, add)
	if c.Is.Shape == Mapped {
		if len(c.Is.Refs) == 0 {
			return Job{}, NotConfigured
		}
		job.Stdin, _ = json.Marshal(c.Is.Refs) //nolint:errcheck // a map of strings can be encoded
	}
	return job, ""
}

// onlyMapped drops what the mapping does not name, and notes what it names in vain.
func (c *Command) onlyMapped(f *Fetched) {
	maps.DeleteFunc(f.Values, func(name string, _ Text) bool {
		_, ok := c.Is.Refs[name]
		if !ok {
			f.Ignored++
		}
		return !ok
	})
	for name := range c.Is.Refs {
		if v := f.Values[name]; v.Empty() {
			if f.Failed == nil {
				f.Failed = map[string]Reason{}
			}
			delete(f.Values, name)
			f.Failed[name] = NoValue
		}
	}
}

// parseOutput reads a helper's output; ok is false if it is no list of secrets. Nothing at all
// is an empty list.
func parseOutput(out []byte) (f Fetched, ok bool) {
	out = bytes.TrimPrefix(out, []byte("\xef\xbb\xbf"))
	trimmed := bytes.TrimSpace(out)
	if len(trimmed) == 0 {
		return Fetched{}, true
	}
	if !utf8.Valid(out) || bytes.IndexByte(out, 0) >= 0 {
		return Fetched{}, false
	}
	if trimmed[0] == '{' {
		return parseObject(trimmed)
	}
	lines, err := dotenv.Parse(out)
	if err != nil {
		return Fetched{}, false
	}
	f.Values = map[string]Text{}
	for _, a := range lines.All() {
		// Base64 ends in "=": a line of a bare secret is no assignment, and its left side is
		// no name that may be shown.
		if !validName(a.Key) || strings.Trim(a.Value, "= \t") == "" {
			f.Ignored++
			continue
		}
		f.Values[a.Key] = Wrap(a.Value)
	}
	return f, len(f.Values) > 0
}

func parseObject(src []byte) (f Fetched, ok bool) {
	var raw map[string]any
	if json.Unmarshal(src, &raw) != nil {
		return Fetched{}, false
	}
	f.Values = map[string]Text{}
	for name, v := range raw {
		if s, isText := v.(string); isText && validName(name) {
			f.Values[name] = Wrap(s)
		} else {
			f.Ignored++
		}
	}
	return f, true
}
