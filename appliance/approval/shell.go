// SPDX-License-Identifier: MIT

package approval

import (
	"regexp"
	"slices"
	"strings"
)

// shell looks at what a shell runs: -c text, a script this command wrote, or standard input.
func (k *checker) shell(c command) {
	for i := 0; i < len(c.args); i++ {
		a := c.args[i]
		switch {
		case a == "--rcfile", a == "--init-file":
			if f, ok := k.fileInput(strings.Join(c.args[min(i+1, len(c.args)):min(i+2, len(c.args))], "")); ok {
				k.shellInput(f, []string{c.name})
			}
			i++
			continue
		case a == "-o", a == "+o", a == "-O", a == "+O":
			i++
			continue
		case a == "--":
			continue
		case strings.HasPrefix(a, "--"):
			continue
		case len(a) > 1 && (a[0] == '-' || a[0] == '+') && strings.Contains(a[1:], "c"):
			k.shellText(c, i+1)
			return
		case a == "-s":
			k.shellInput(c.in, append([]string{c.name}, c.args[i+1:]...))
			return
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			continue
		}
		if isStdin(a) {
			break
		}
		if f, ok := k.fileInput(a); ok {
			k.shellInput(f, c.args[i:])
		} else if startsUnknown(a) {
			k.emit(EvalOpaque)
		}
		return
	}
	k.shellInput(c.in, []string{c.name})
}

// shellText looks at the text after -c and whatever options still follow it.
func (k *checker) shellText(c command, i int) {
	for i < len(c.args) && len(c.args[i]) > 1 && c.args[i][0] == '-' {
		i++
	}
	if i >= len(c.args) {
		return
	}
	text := c.args[i]
	if hasHole(text) {
		if c.node != nil && fetches(c.node) {
			k.emit(ShellRemote)
		} else {
			k.emit(ShellOpaque)
		}
	}
	params := c.args[i+1:]
	if len(params) == 0 {
		params = []string{c.name}
	}
	k.payload(text, c.in, params)
}

// textRunner looks at commands that pass shell text or a command on.
func (k *checker) textRunner(c command) {
	switch c.name {
	case "watch":
		for _, start := range starts(c.args, wrapper{short: "nq", long: []string{"interval"}}) {
			k.payload(strings.Join(c.args[start:], " "), input{}, nil)
		}
		return
	case "flock":
		k.flock(c)
		return
	case "at", "batch":
		k.emit(WriteStartup)
	case "runuser":
		if slices.ContainsFunc(c.args, func(a string) bool { return a == "-u" || strings.HasPrefix(a, "--user") }) {
			k.peel(c, wrapper{short: "ugG", long: []string{"user", "group", "supp-group"}})
			return
		}
	}
	for i, a := range c.args {
		switch {
		case strings.HasPrefix(a, "--command="):
			k.commandText(c, a[len("--command="):])
			return
		case i+1 < len(c.args) && (a == "--command" || len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.HasSuffix(a, "c")):
			k.commandText(c, c.args[i+1])
			return
		}
	}
	k.shellInput(c.in, []string{c.name})
}

func (k *checker) commandText(c command, text string) {
	if hasHole(text) {
		k.emit(ShellOpaque)
	}
	k.payload(text, c.in, nil)
}

func (k *checker) flock(c command) {
	for _, start := range starts(c.args, wrapper{short: "wE", long: []string{"timeout", "wait", "conflict-exit-code"}}) {
		switch rest := c.args[min(start+1, len(c.args)):]; {
		case len(rest) > 1 && (rest[0] == "-c" || rest[0] == "--command"):
			k.commandText(c, rest[1])
		case len(rest) > 0:
			k.run(rest, c.in, c.node)
		}
	}
}

// tmux takes shell text or keys to type.
func (k *checker) tmux(c command) {
	for i, a := range c.args {
		switch a {
		case "new", "new-session", "neww", "new-window", "split-window", "splitw", "respawn-pane", "respawn-window", "run-shell", "run", "if-shell", "send-keys", "send", "pipe-pane", "popup", "display-popup":
			_, words := options(c.args[i+1:], "csnteFxyI")
			for len(words) > 0 && (words[len(words)-1] == "Enter" || words[len(words)-1] == "C-m") {
				words = words[:len(words)-1]
			}
			k.commandText(c, strings.Join(words, " "))
			return
		}
	}
}

// netcat finds programs that are tied to a connection.
func (k *checker) netcat(c command) {
	for i, a := range c.args {
		text, ok := "", false
		if m := socatRuns.FindStringSubmatch(a); m != nil && c.name == "socat" {
			text, ok = m[1], true
		} else if netcatRuns.MatchString(a) && c.name != "socat" && i+1 < len(c.args) {
			text, ok = c.args[i+1], true
		}
		if ok {
			k.emit(NetShell)
			k.payload(text, input{}, nil)
		}
	}
}

var (
	socatRuns  = regexp.MustCompile(`(?i)(?:^|,|!!)(?:exec|system|shell):([^,]*)`)
	netcatRuns = regexp.MustCompile(`^(-[a-z]*[ec]|--exec|--sh-exec|--lua-exec)$`)
)

// remoteShell looks at what is run on another machine, whose end is not ours.
func (k *checker) remoteShell(c command) {
	for _, a := range c.args {
		if sshRuns.MatchString(a) {
			k.emit(ExecOption)
		}
	}
	w := wrapper{short: "BbcDEeFIiJLlmOopQRSWw", skip: 1}
	s := starts(c.args, w)
	rest := c.args[s[len(s)-1]:]
	if len(rest) == 0 {
		return
	}
	text := strings.Join(rest[1:], " ")
	k.when("on another machine", func() {
		if hasHole(text) {
			k.emit(ShellOpaque)
		}
		if text == "" {
			k.shellInput(c.in, []string{c.name})
			return
		}
		k.payload(text, c.in, nil)
	})
}

var sshRuns = regexp.MustCompile(`(?i)^(-o)?\s*(proxycommand|localcommand|knownhostscommand)\b`)
