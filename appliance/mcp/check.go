// SPDX-License-Identifier: MIT

package mcp

import (
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// What a shell that poses as an MCP server is caught by. These are upstream's checks: two
// shapes of attacks that were seen, and the marks of one campaign. They are no sandbox: a
// command in the config is the user's own program.
var (
	egress = regexp.MustCompile(`(?i)(?:^|[^\w.-])(?:curl|wget|nc|ncat|socat)(?:$|[^\w.-])|/dev/tcp/|/dev/udp/` +
		`|\bInvoke-WebRequest\b|\bInvoke-RestMethod\b|\bSystem\.Net\.WebClient\b`)
	persistence = regexp.MustCompile(`(?i)authorized_keys|\.ssh/|/etc/ssh\b|/etc/pam\.d\b|pam_[\w-]+\.so|/etc/sudoers` +
		`|/etc/cron|crontab\b|/etc/rc\.local|/etc/systemd|\.bashrc\b|\.bash_profile\b|\.profile\b|\.zshrc\b`)
	campaign = regexp.MustCompile(`AAAAC3NzaC1lZDI1NTE5AAAAICBoh1oDC4DnsO1m5mJ4yfEKrQebaFh|hermes-0day` +
		`|60\.165\.167\.|118\.182\.244\.156|61\.178\.123\.196`)
	duration   = regexp.MustCompile(`^[0-9.]+[smhd]?$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

// Check reports why a server must not be started, as a [RefusedError], or nil.
func (s Server) Check() error {
	no := func(reason string) error { return &RefusedError{Server: s.Name, Reason: reason} }
	switch {
	case s.Name == "":
		return no("it has no name")
	case (s.Command == "") == (s.URL == ""):
		return no("it needs either a command or a url")
	}
	if s.URL != "" {
		if reason := s.checkHTTP(); reason != "" {
			return no(reason)
		}
		return nil
	}
	if reason := s.checkStdio(); reason != "" {
		return no(reason)
	}
	return nil
}

func (s Server) checkStdio() string {
	text := append([]string{s.Command}, s.Args...)
	for _, k := range sortedKeys(s.Env) {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return "env has a name that no environment can hold"
		}
		text = append(text, s.Env[k])
	}
	all := strings.Join(text, " ")
	if strings.Contains(all, "\x00") {
		return "its command, args or env hold a NUL byte"
	}
	if campaign.MatchString(all) {
		return "it carries a mark of the hermes-0day campaign: remove the entry and look for what else was planted"
	}
	script := shellScript(append([]string{s.Command}, s.Args...))
	switch {
	case egress.MatchString(script):
		return "its command is a shell whose script uses the network, which is how secrets are stolen; start the server's own program instead"
	case persistence.MatchString(script):
		return "its command is a shell whose script touches SSH keys, PAM, sudoers, cron, systemd or shell start files, which no MCP server needs"
	}
	return ""
}

// shellScript returns what a shell is given as arguments, "" if no shell is started.
// Programs that only start another one are looked through.
func shellScript(words []string) string {
	words = append(strings.Fields(words[0]), words[1:]...) // a whole command line in command
	for len(words) > 0 {
		word := base(words[0])
		words = words[1:]
		if slices.Contains([]string{"sh", "bash", "zsh", "dash", "ash", "ksh", "fish", "cmd", "powershell", "pwsh"}, word) {
			return strings.Join(words, " ")
		}
		if !slices.Contains([]string{"env", "nohup", "setsid", "nice", "ionice", "timeout", "stdbuf", "busybox", "sudo", "doas", "xargs", "exec"}, word) {
			return ""
		}
		for len(words) > 0 && !isProgram(words[0]) {
			words = words[1:]
		}
	}
	return ""
}

// isProgram reports whether a word after a wrapper can be what it starts.
func isProgram(word string) bool {
	return !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") && !duration.MatchString(word)
}

func base(word string) string {
	return strings.TrimSuffix(strings.ToLower(path.Base(strings.ReplaceAll(word, `\`, "/"))), ".exe")
}

func (s Server) checkHTTP() string {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil:
		return "its url cannot be read" // the error quotes it
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "its url is no http or https address"
	case u.User != nil:
		return "its url holds a user name or password: use headers"
	}
	for _, k := range sortedKeys(s.Headers) {
		if !headerName.MatchString(k) {
			return "it has a header whose name is not allowed"
		}
		if strings.ContainsAny(s.Headers[k], "\r\n\x00") {
			return "header " + k + " holds a line break"
		}
	}
	return ""
}

// clearText reports whether a credential would cross a network without encryption.
func (s Server) clearText() bool {
	u, err := url.Parse(s.URL)
	return err == nil && u.Scheme == "http" && !nearby(u.Hostname()) && slices.ContainsFunc(sortedKeys(s.Headers), secretHeader)
}

func secretHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"authorization", "cookie", "token", "api-key", "apikey", "secret"},
		func(part string) bool { return strings.Contains(name, part) })
}

// nearby also takes names that only a local network resolves: a container beside this one.
func nearby(host string) bool {
	ip := net.ParseIP(host)
	if ip != nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast()
	}
	return !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".internal") || strings.HasSuffix(host, ".local")
}
