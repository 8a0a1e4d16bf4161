// SPDX-License-Identifier: MIT

package service

import (
	"encoding/binary"
	"encoding/xml"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// TaskName is what the Windows Task Scheduler calls the service.
func (s Spec) TaskName() string {
	return "Hermes_Gateway" + strings.ReplaceAll(strings.TrimPrefix(s.Name, Base), "-", "_")
}

// TaskDir is the directory of a home in which the files for Windows stand.
const TaskDir = "gateway-service"

// launch is the command that runs the launcher. JScript is on every Windows; VBScript, which
// does the same, is being taken out of it.
func (s Spec) launch() []string {
	return []string{"wscript.exe", "//B", "//Nologo", "//E:JScript", filepath.Join(s.Home, TaskDir, s.TaskName()+".js")}
}

// Task returns the definition of a scheduled task that starts the service when its user logs
// in (services spec §1.5), in UTF-16 as the scheduler wants it. It runs the launcher. user is
// DOMAIN\name, or a SID. The error is an [*InputError].
func (s Spec) Task(user string) (File, error) {
	if err := s.Check(); err != nil {
		return File{}, err
	}
	if user == "" || strings.ContainsAny(user, "\r\n") {
		return File{}, &InputError{"user", user, `DOMAIN\name, or a SID`}
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
  <Actions Context="Author"><Exec><Command>wscript.exe</Command><Arguments>` + esc(windowsLine(s.launch()[1:])) + `</Arguments><WorkingDirectory>` + esc(s.Home) + `</WorkingDirectory></Exec></Actions>
</Task>
`
	return File{s.TaskName() + ".xml", string(utf16le(strings.ReplaceAll(text, "\n", "\r\n")))}, nil
}

// Launcher returns the script that runs the service without a window, so that nobody can close
// it (H#45599), and starts it again as its exit code says: the scheduler only knows whether an
// action could be started. It goes on until the service ends for good, or the file [Spec.StopFile]
// is there. The error is an [*InputError].
func (s Spec) Launcher() (File, error) {
	if err := s.Check(); err != nil {
		return File{}, err
	}
	for _, w := range s.Exec {
		if strings.Contains(w, "%") {
			return File{}, &InputError{"argument", w, "no %: the scripting host puts variables in its place"}
		}
	}
	env := map[string]string{"HERMES_HOME": s.Home, "HERMES_SUPERVISED_CHILD": "1", "HERMES_GATEWAY_DETACHED": "1", "PYTHONIOENCODING": "utf-8"}
	maps.Copy(env, s.Env)
	var b strings.Builder
	b.WriteString("// Runs the Hermes gateway without a window. Written by hermes-appliance install.\n")
	b.WriteString("var shell = WScript.CreateObject(\"WScript.Shell\");\nvar files = WScript.CreateObject(\"Scripting.FileSystemObject\");\n")
	b.WriteString("var env = shell.Environment(\"Process\");\n")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("env(" + jsString(name) + ") = " + jsString(env[name]) + ";\n")
	}
	b.WriteString("shell.CurrentDirectory = " + jsString(s.Home) + ";\n")
	fmt.Fprintf(&b, `while (true) {
  var code = shell.Run(%s, 0, true);
  if (code === %d || code === %d || files.FileExists(%s)) WScript.Quit(code);
  if (code !== %d) WScript.Sleep(5000);
}
`, jsString(windowsLine(s.Exec)), int(exitcode.OK), int(exitcode.Config), jsString(s.StopFile()), int(exitcode.Restart))
	return File{s.TaskName() + ".js", strings.ReplaceAll(b.String(), "\n", "\r\n")}, nil
}

// StopFile is there while the service is to stay stopped.
func (s Spec) StopFile() string { return filepath.Join(s.Home, TaskDir, s.TaskName()+".stop") }

// Startup returns what stands in the user's Startup folder where no task can be registered. It
// needs no more than Name and Home.
func (s Spec) Startup() File {
	words := s.launch()
	for i, w := range words {
		if words[i] = windowsLine([]string{w}); words[i] == w && strings.ContainsAny(w, "&|<>()^,;=") { // cmd's own
			words[i] = `"` + w + `"`
		}
	}
	line := strings.ReplaceAll(strings.Join(words, " "), "%", "%%")
	return File{s.TaskName() + ".cmd", "@chcp 65001 >nul\r\n@start \"\" " + line + "\r\n"}
}

// StartupCommand is what it runs.
func (s Spec) StartupCommand() []string { return s.launch() }

// jsString is a text of JScript, in ASCII: the scripting host reads files in the code page of
// the machine.
func jsString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, u := range utf16.Encode([]rune(s)) {
		if u < ' ' || u > '~' || u == '"' || u == '\\' {
			fmt.Fprintf(&b, `\u%04x`, u)
			continue
		}
		b.WriteByte(byte(u))
	}
	b.WriteByte('"')
	return b.String()
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
