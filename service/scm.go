// SPDX-License-Identifier: MIT

package service

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// SCMName is what the Windows Service Control Manager calls the service.
func (s Spec) SCMName() string { return s.TaskName() }

// SCMLine is the command line that the Service Control Manager runs. It names the home, so that
// a service can be told from another program's.
func (s Spec) SCMLine() string {
	return windowsLine(append(slices.Clone(s.Exec), "--home", s.Home))
}

// listSeparator is between the entries of a list of texts. reg.exe's own would be \0, with which a
// directory may begin: C:\0.
const listSeparator = "|"

// SCM returns what makes the service one of the Windows Service Control Manager: its
// commands in order, one a line, each a list of words in JSON. The first creates
// it; that it starts with the machine is said later. It runs as an account of its own that has no password and no rights but those to its home.
// A service that says it stopped with an error is started again after five seconds, 75 among
// them; the program says 0 for 78 (see cmd), which the manager lets be. The error is an
// [*InputError].
func (s Spec) SCM() (File, error) {
	own := s // the account is the service's own: what the Spec says of one does not count
	own.Scope, own.Account, own.Group, own.AccountHome = User, "", "", ""
	if err := own.Check(); err != nil {
		return File{}, err
	}
	name := s.SCMName()
	account := `NT SERVICE\` + name
	env := map[string]string{"HERMES_HOME": s.Home, "HERMES_SUPERVISED_CHILD": "1"}
	maps.Copy(env, s.Env)
	var set []string
	for _, n := range slices.Sorted(maps.Keys(env)) {
		if strings.Contains(env[n], listSeparator) {
			return File{}, &InputError{"value of " + n, env[n], "no " + listSeparator}
		}
		set = append(set, n+"="+env[n])
	}
	var b strings.Builder
	for _, words := range [][]string{
		{"sc.exe", "create", name, "type=", "own", "start=", "demand", "error=", "normal", "obj=", account, "DisplayName=", "Hermes gateway (" + s.Name + ")", "binPath=", s.SCMLine()},
		{"sc.exe", "description", name, Description},
		{"sc.exe", "failure", name, "reset=", "3600", "actions=", "restart/5000/restart/5000/restart/5000"},
		{"sc.exe", "failureflag", name, "1"}, // also where it only says that it failed
		{"reg.exe", "add", `HKLM\SYSTEM\CurrentControlSet\Services\` + name, "/v", "Environment", "/t", "REG_MULTI_SZ", "/s", listSeparator, "/d", strings.Join(set, listSeparator), "/f"},
		{"icacls.exe", s.Home, "/grant", account + ":(OI)(CI)M", "/Q"},
	} {
		line, err := json.Marshal(words)
		if err != nil {
			return File{}, err
		}
		b.Write(append(line, '\n'))
	}
	return File{name + ".scm", Stamp(s.Home, b.String())}, nil
}

// SCMDir is the directory below %ProgramFiles% in which such files stand: only an administrator
// may say what an administrator will carry out, and below %ProgramData% everybody may make one.
const SCMDir = "hermes-appliance"

// ReadSCM reads the commands back.
func ReadSCM(data string) ([][]string, error) {
	_, body, _ := strings.Cut(data, "\n")
	var out [][]string
	for line := range strings.Lines(body) {
		var words []string
		if err := json.Unmarshal([]byte(line), &words); err != nil || len(words) < 3 {
			return nil, fmt.Errorf("line %d: want a list of words in JSON", len(out)+2)
		}
		if prog := filepath.Base(words[0]); prog != words[0] || !slices.Contains([]string{"sc.exe", "reg.exe", "icacls.exe"}, prog) {
			return nil, fmt.Errorf("line %d: %s is none of the programs that belong there", len(out)+2, words[0])
		}
		out = append(out, words)
	}
	if len(out) == 0 || out[0][1] != "create" {
		return nil, fmt.Errorf("line 2: want the command that creates the service")
	}
	return out, nil
}
