// SPDX-License-Identifier: MIT

package service

import (
	"encoding/binary"
	"encoding/xml"
	"strings"
	"unicode/utf16"
)

// TaskName is what the Windows Task Scheduler calls the service.
func (s Spec) TaskName() string {
	return "Hermes_Gateway" + strings.ReplaceAll(strings.TrimPrefix(s.Name, Base), "-", "_")
}

// Task returns the definition of a scheduled task that starts the service when its user logs
// in (services spec §1.5), in UTF-16 as the scheduler wants it. user is DOMAIN\name. The error
// is an [*InputError].
func (s Spec) Task(user string) (File, error) {
	if err := s.Check(); err != nil {
		return File{}, err
	}
	if user == "" || strings.ContainsAny(user, "\r\n") {
		return File{}, &InputError{"user", user, `DOMAIN\name`}
	}
	esc := func(v string) string {
		var b strings.Builder
		xml.EscapeText(&b, []byte(v)) //nolint:errcheck // a builder takes everything
		return b.String()
	}
	text := `<?xml version="1.0" encoding="UTF-16"?>
<Task version="1.4" xmlns="http://schemas.microsoft.com/windows/2004/02/mit/task">
  <RegistrationInfo><Description>` + esc(Description) + `</Description><URI>\` + esc(s.TaskName()) + `</URI></RegistrationInfo>
  <Triggers><LogonTrigger><Enabled>true</Enabled><UserId>` + esc(user) + `</UserId><Delay>PT30S</Delay></LogonTrigger></Triggers>
  <Principals><Principal id="Author"><UserId>` + esc(user) + `</UserId><LogonType>InteractiveToken</LogonType><RunLevel>LeastPrivilege</RunLevel></Principal></Principals>
  <Settings>
    <MultipleInstancesPolicy>IgnoreNew</MultipleInstancesPolicy>
    <DisallowStartIfOnBatteries>false</DisallowStartIfOnBatteries>
    <StopIfGoingOnBatteries>false</StopIfGoingOnBatteries>
    <StartWhenAvailable>true</StartWhenAvailable>
    <AllowHardTerminate>true</AllowHardTerminate>
    <ExecutionTimeLimit>PT0S</ExecutionTimeLimit>
    <Priority>7</Priority>
    <RestartOnFailure><Interval>PT1M</Interval><Count>999</Count></RestartOnFailure>
    <Enabled>true</Enabled>
  </Settings>
  <Actions Context="Author"><Exec><Command>` + esc(s.Exec[0]) + `</Command><Arguments>` + esc(windowsLine(s.Exec[1:])) + `</Arguments><WorkingDirectory>` + esc(s.Home) + `</WorkingDirectory></Exec></Actions>
</Task>
`
	return File{s.TaskName() + ".xml", string(utf16le(strings.ReplaceAll(text, "\n", "\r\n")))}, nil
}

func utf16le(s string) []byte {
	units := append([]uint16{0xfeff}, utf16.Encode([]rune(s))...)
	out := make([]byte, 0, 2*len(units))
	for _, u := range units {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// windowsLine joins arguments so that a program's own parsing gives them back: the rules of
// CommandLineToArgvW.
func windowsLine(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if a != "" && !strings.ContainsAny(a, " \t\"") {
			out[i] = a
			continue
		}
		var b strings.Builder
		b.WriteByte('"')
		slashes := 0
		for _, c := range []byte(a) {
			switch c {
			case '\\':
				slashes++
				continue
			case '"':
				b.WriteString(strings.Repeat(`\`, 2*slashes+1))
			default:
				b.WriteString(strings.Repeat(`\`, slashes))
			}
			slashes = 0
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(`\`, 2*slashes) + `"`)
		out[i] = b.String()
	}
	return strings.Join(out, " ")
}
