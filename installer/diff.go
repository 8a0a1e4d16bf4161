// SPDX-License-Identifier: MIT

package installer

import (
	"encoding/binary"
	"regexp"
	"strings"
	"unicode/utf16"

	"github.com/aymanbagabas/go-udiff"

	"github.com/hermes-appliance/hermes-appliance/service"
)

// Diff shows what would change in files, as a unified diff. Values of variables that are not
// known to be harmless are masked: what a unit held that somebody else wrote may be secret.
func (p Plan) Diff() string {
	var b strings.Builder
	for _, s := range p.Steps {
		if s.Op != OpFile || s.Quiet || strings.Contains(s.Path, backupMark) {
			continue
		}
		if s.After.Link != "" {
			b.WriteString("link " + s.Path + " -> " + s.After.Link + "\n")
			continue
		}
		old, now := "a"+s.Path, "b"+s.Path
		if !s.Before.Exists {
			old = "/dev/null"
		}
		if !s.After.Exists {
			now = "/dev/null"
		}
		b.WriteString(udiff.Unified(old, now, mask(text(s.Before.Data)), mask(text(s.After.Data))))
	}
	return b.String()
}

// Text prints every file as it would be, each with its path before it.
func (d *Desired) Text() string {
	var b strings.Builder
	for _, f := range d.Printed() {
		if f.Link != "" {
			b.WriteString("# " + f.Path + " -> " + f.Link + "\n\n")
			continue
		}
		b.WriteString("# " + f.Path + "\n" + f.Text + "\n")
	}
	return b.String()
}

// Printed is a file, or a link, with what is in it.
type Printed struct {
	Artefact

	Text string `json:"text"`
}

// Printed returns the files for people and programs to look at.
func (d *Desired) Printed() []Printed {
	out := make([]Printed, 0, len(d.Files))
	for _, f := range d.Files {
		out = append(out, Printed{f, text(f.Data)})
	}
	return out
}

// text is a file's content for people; a task's definition is UTF-16.
func text(data []byte) string {
	if len(data) < 2 || data[0] != 0xff || data[1] != 0xfe {
		return string(data)
	}
	var units []uint16
	for i := 2; i+1 < len(data); i += 2 {
		units = append(units, binary.LittleEndian.Uint16(data[i:]))
	}
	return strings.ReplaceAll(string(utf16.Decode(units)), "\r\n", "\n")
}

var (
	// reSecret is what names of secrets look like, in a line that sets one.
	reSecret = regexp.MustCompile(`(?i)^[^=]*(key|token|secret|passw|credential|auth)[^=]*=`)
	reOption = regexp.MustCompile(`(?i)(key|token|secret|passw|credential|auth)\S*[= ]`)
	rePlist  = regexp.MustCompile(`(?i)<key>[^<]*(key|token|secret|passw|credential|auth)[^<]*</key>`)
)

// mask hides the values of variables, other than those that this program writes, and of what is
// named like a secret.
func mask(text string) string {
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		end := line[len(strings.TrimRight(line, "\n")):]
		switch value, ok := strings.CutPrefix(trimmed, "Environment="); {
		case ok:
			words, err := service.Words(value, false)
			if err != nil {
				lines[i] = "Environment=***" + end
				continue
			}
			for n, w := range words {
				words[n] = `"` + maskOne(w) + `"`
			}
			if strings.Join(words, " ") != value {
				lines[i] = "Environment=" + strings.Join(words, " ") + end
			}
		case strings.HasPrefix(trimmed, "export "):
			lines[i] = "export " + maskOne(strings.TrimPrefix(trimmed, "export ")) + end
		case reSecret.MatchString(trimmed) && !strings.HasPrefix(trimmed, "LoadCredential"), strings.HasPrefix(trimmed, "Exec") && reOption.MatchString(trimmed):
			head, _, _ := strings.Cut(line, "=")
			lines[i] = head + "=***" + end
		case i > 0 && rePlist.MatchString(lines[i-1]) && strings.HasPrefix(trimmed, "<string>"):
			lines[i] = "<string>***</string>" + end
		}
	}
	return strings.Join(lines, "")
}

// harmless are the variables whose values this program writes.
func harmless(name string) bool {
	switch name {
	case "HERMES_HOME", "HERMES_SUPERVISED_CHILD", "HERMES_S6_SUPERVISED_CHILD", "HOME", "USER", "LOGNAME", "PATH", "LANG":
		return true
	}
	return false
}

func maskOne(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	if harmless(name) {
		return kv
	}
	return name + "=***"
}
