// SPDX-License-Identifier: MIT

package mcp

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Times that an entry of mcp_servers has if it says nothing else.
const (
	DefaultTimeout        = 120 * time.Second
	DefaultConnectTimeout = 60 * time.Second
	DefaultKeepalive      = 180 * time.Second // of HTTP servers; stdio servers are not pinged
	DefaultAskTimeout     = 300 * time.Second
)

// Server is one entry of mcp_servers, with every ${VAR} already replaced. It is a stdio
// server (Command) or an HTTP server (URL).
type Server struct {
	Name     string // as configured
	Disabled bool
	Lazy     bool // connected when the profile's tools are first asked for

	Command string
	Args    []string
	Env     map[string]string // its own variables, for Profile.Env

	URL        string
	Headers    map[string]string
	OAuth      *OAuth // auth: oauth; nil = no login
	ClientCert string // PEM file, with the key if ClientKey is ""
	ClientKey  string

	Timeout        time.Duration // of a call
	ConnectTimeout time.Duration
	Keepalive      time.Duration // between pings; 0 = none
	AskTimeout     time.Duration // for an answer to the server's questions

	Include   *[]string // globs of tools; nil = all; beats Exclude
	Exclude   []string
	Resources bool // offer list_resources and read_resource if the server has any
	Prompts   bool // offer list_prompts and get_prompt if the server has any

	NoQuestions bool // it may not ask the user (elicitation.enabled: false)
	Sampling    Sampling

	Untrusted bool // trust is anything but full
	Parallel  bool // supports_parallel_tool_calls
}

// Parse reads mcp_servers, with every ${VAR} already replaced where it could be. It returns
// the entries that make sense, sorted by name, and what is wrong with the others or looks
// like a mistake; each problem names its key.
func Parse(entries map[string]any) ([]Server, []error) {
	var (
		out      []Server
		problems []error
		files    = map[string]string{} // of logins
	)
	for _, name := range sortedKeys(entries) {
		p := &parser{path: "mcp_servers." + name}
		if fields, ok := entries[name].(map[string]any); ok {
			p.fields = fields
		} else {
			p.bad("", "is no mapping")
		}
		s := p.server(name)
		if name := tokenName(s.Name); s.OAuth != nil && files[name] != "" {
			p.bad("auth", "would share the login of mcp_servers."+files[name]+": rename one of them")
		} else if s.OAuth != nil {
			files[name] = s.Name
		}
		if !p.failed {
			out = append(out, s)
		}
		problems = append(problems, p.problems...)
	}
	return out, problems
}

// parser reads one entry. It remembers which keys were asked for, to find misspelled ones.
type parser struct {
	path     string
	fields   map[string]any
	seen     []string
	problems []error
	failed   bool // one of the problems makes the entry unusable
}

func (p *parser) warn(key, text string) {
	if key != "" {
		key = "." + key
	}
	p.problems = append(p.problems, fmt.Errorf("%s%s %s", p.path, key, text))
}

func (p *parser) bad(key, text string) {
	p.failed = true
	p.warn(key, text)
}

func (p *parser) server(name string) Server {
	s := Server{
		Name: name, Disabled: !p.boolean("enabled", true), Lazy: p.boolean("lazy", false),
		Command: strings.TrimSpace(p.text("command")), Args: p.list("args"), Env: p.table("env"),
		URL: strings.TrimSpace(p.text("url")), Headers: p.table("headers"),
		ClientCert: p.text("client_cert"), ClientKey: p.text("client_key"),
		Timeout: p.seconds("timeout", DefaultTimeout), ConnectTimeout: p.seconds("connect_timeout", DefaultConnectTimeout),
		AskTimeout: DefaultAskTimeout, Resources: true, Prompts: true,
		Parallel: p.boolean("supports_parallel_tool_calls", false),
	}
	if trust := p.text("trust"); trust != "" && trust != "full" {
		s.Untrusted = true
	}
	s.OAuth = p.oauth()
	keepalive := time.Duration(0)
	if s.URL != "" {
		keepalive = DefaultKeepalive
	}
	if s.Keepalive = p.seconds("keepalive_interval", keepalive); s.Keepalive > 0 {
		s.Keepalive = max(s.Keepalive, 5*time.Second)
	}
	if t := p.section("tools"); t != nil {
		s.Include, s.Exclude = t.globs("include"), t.list("exclude")
		s.Resources, s.Prompts = t.boolean("resources", true), t.boolean("prompts", true)
		p.take(t)
	}
	if e := p.section("elicitation"); e != nil {
		s.AskTimeout, s.NoQuestions = e.seconds("timeout", DefaultAskTimeout), !e.boolean("enabled", true)
		p.take(e)
	}
	s.Sampling = p.sampling(s.Untrusted)
	p.transport(&s)
	p.placeholders(s)
	p.unknown()
	return s
}

func (p *parser) transport(s *Server) {
	p.seen = append(p.seen, "transport")
	switch {
	case s.Command != "" && s.URL != "":
		p.bad("", "has both command and url; keep the one that is meant")
	case s.Command == "" && s.URL == "":
		p.bad("", "has neither command nor url")
	case p.fields["transport"] == "sse":
		p.bad("transport", "is sse, which is not supported; use the server's streamable HTTP address")
	}
	for key, on := range map[string]bool{"args": s.Args != nil, "env": s.Env != nil} {
		if s.URL != "" && on {
			p.warn(key, "is for servers with a command and is ignored")
		}
	}
	if s.Command != "" && s.Headers != nil {
		p.warn("headers", "is for servers with a url and is ignored")
	}
}

// placeholders finds references that nothing replaced: a server would take the text for a
// credential.
func (p *parser) placeholders(s Server) {
	look := func(key, value string) {
		if _, rest, ok := strings.Cut(value, "${"); ok && strings.Contains(rest, "}") {
			name, _, _ := strings.Cut(rest, "}")
			p.warn(key, "refers to ${"+name+"}, which has no value in this profile: set it in the profile's .env")
		}
	}
	if s.clearText() {
		p.warn("url", "is not encrypted and a credential is sent there: use https")
	}
	look("url", s.URL)
	for _, k := range sortedKeys(s.Headers) {
		look("headers."+k, s.Headers[k])
	}
	for _, k := range sortedKeys(s.Env) {
		look("env."+k, s.Env[k])
	}
	if s.OAuth != nil {
		look("oauth.client_id", s.OAuth.ClientID)
		look("oauth.client_secret", s.OAuth.ClientSecret)
	}
}

func (p *parser) unknown() {
	for _, k := range sortedKeys(p.fields) {
		if !slices.Contains(p.seen, k) {
			p.warn(k, "is not known and is ignored")
		}
	}
}

func (p *parser) get(key string) any {
	p.seen = append(p.seen, key)
	return p.fields[key]
}

// section returns a reader of a nested mapping, nil if there is none.
func (p *parser) section(key string) *parser {
	switch v := p.get(key).(type) {
	case nil:
	case map[string]any:
		return &parser{path: p.path + "." + key, fields: v}
	default:
		p.bad(key, "is no mapping")
	}
	return nil
}

func (p *parser) take(t *parser) {
	t.unknown()
	p.problems = append(p.problems, t.problems...)
	p.failed = p.failed || t.failed
}

// text reads a string; numbers and booleans are what YAML made of one.
func (p *parser) text(key string) string {
	v := p.get(key)
	s, ok := scalar(v)
	if v != nil && !ok {
		p.bad(key, "is no text")
	}
	return s
}

func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int:
		return strconv.Itoa(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

func (p *parser) list(key string) []string {
	switch v := p.get(key).(type) {
	case nil:
		return nil
	case []any:
		out := make([]string, 0, len(v))
		for i, e := range v {
			s, ok := scalar(e)
			if !ok {
				p.bad(key, fmt.Sprintf("has no text at place %d", i+1))
			}
			out = append(out, s)
		}
		return out
	case []string:
		return slices.Clone(v)
	default:
		if s, ok := scalar(v); ok && key != "args" {
			return []string{s}
		}
		p.bad(key, "is no list; write it as a YAML list, one item a line")
		return nil
	}
}

// globs is a list of which an empty one is something else than none.
func (p *parser) globs(key string) *[]string {
	if p.fields[key] == nil {
		p.seen = append(p.seen, key)
		return nil
	}
	l := p.list(key)
	return &l
}

func (p *parser) table(key string) map[string]string {
	switch v := p.get(key).(type) {
	case nil:
		return nil
	case map[string]string:
		return maps.Clone(v)
	case map[string]any:
		out := make(map[string]string, len(v))
		for _, k := range sortedKeys(v) {
			s, ok := scalar(v[k])
			if !ok && v[k] != nil {
				p.bad(key+"."+k, "is no text")
			}
			if v[k] != nil { // null = not set
				out[k] = s
			}
		}
		return out
	}
	p.bad(key, "is no mapping")
	return nil
}

func (p *parser) boolean(key string, def bool) bool {
	switch v := p.get(key).(type) {
	case nil:
		return def
	case bool:
		return v
	case string:
		switch strings.ToLower(strings.TrimSpace(v)) {
		case "true", "yes", "on", "1":
			return true
		case "false", "no", "off", "0":
			return false
		}
	}
	p.bad(key, "is neither true nor false")
	return def
}

// seconds reads a number of seconds. false, as YAML reads off, is zero.
func (p *parser) seconds(key string, def time.Duration) time.Duration {
	v := p.get(key)
	if v == nil {
		return def
	}
	if v == false {
		v = 0
	}
	s, _ := scalar(v)
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsNaN(f) || f < 0 || f > 86400 {
		p.bad(key, "is no number of seconds between 0 and 86400")
		return def
	}
	if f == 0 && key != "keepalive_interval" {
		return def
	}
	return time.Duration(f * float64(time.Second))
}
