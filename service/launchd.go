// SPDX-License-Identifier: MIT

package service

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Label is what launchd calls the service.
func (s Spec) Label() string { return "ai.hermes.gateway" + strings.TrimPrefix(s.Name, Base) }

// exitTimeOut is how long launchd waits for a stop before it kills.
const exitTimeOut = 25

// Launchd returns the property list of the service (services spec §1.4). launchd knows no exit
// status that ends it: who starts the service checks first whether it could run. The error is
// an [*InputError].
func (s Spec) Launchd() (File, error) {
	if err := s.Check(); err != nil {
		return File{}, err
	}
	log := filepath.Join(s.Home, "logs")
	env := map[string]string{"HERMES_HOME": s.Home, "HERMES_SUPERVISED_CHILD": "1"}
	if len(s.Path) > 0 {
		env["PATH"] = strings.Join(s.Path, ":")
	}
	maps.Copy(env, s.Env)
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)
	text := func(key, value string) { b.WriteString("\t<key>" + key + "</key>\n\t" + plistString(value) + "\n") }
	text("Label", s.Label())
	b.WriteString("\t<key>ProgramArguments</key>\n\t<array>\n")
	for _, w := range append(slices.Clone(s.Exec), externalSupervisor) {
		b.WriteString("\t\t" + plistString(w) + "\n")
	}
	b.WriteString("\t</array>\n")
	text("WorkingDirectory", s.Home)
	b.WriteString("\t<key>EnvironmentVariables</key>\n\t<dict>\n")
	for _, name := range slices.Sorted(maps.Keys(env)) {
		b.WriteString("\t\t<key>" + name + "</key>\n\t\t" + plistString(env[name]) + "\n")
	}
	b.WriteString("\t</dict>\n\t<key>LimitLoadToSessionType</key>\n\t<array>\n\t\t<string>Aqua</string>\n\t\t<string>Background</string>\n\t</array>\n")
	b.WriteString("\t<key>RunAtLoad</key>\n\t<true/>\n\t<key>KeepAlive</key>\n\t<true/>\n")
	b.WriteString("\t<key>ThrottleInterval</key>\n\t<integer>30</integer>\n\t<key>ExitTimeOut</key>\n\t<integer>" + strconv.Itoa(exitTimeOut) + "</integer>\n")
	text("StandardOutPath", filepath.Join(log, "gateway.log"))
	text("StandardErrorPath", filepath.Join(log, "gateway.error.log"))
	b.WriteString("</dict>\n</plist>\n")
	return File{s.Label() + ".plist", b.String()}, nil
}

func plistString(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) //nolint:errcheck // a builder takes everything
	return "<string>" + b.String() + "</string>"
}

// externalSupervisor says to the gateway that somebody starts it again.
const externalSupervisor = "--external-supervisor"

// Job is what a property list of ours runs.
type Job struct {
	Exec     []string // without what only counts under launchd
	Env      []string // NAME=value, sorted as in the list
	Dir      string
	Out, Err string // files of what it prints
}

// ReadLaunchd reads back what [Spec.Launchd] rendered. It is no reader of property lists at
// large: what it does not know it skips, and what makes no program is an error.
func ReadLaunchd(data []byte) (Job, error) {
	var j Job
	d := xml.NewDecoder(bytes.NewReader(data))
	var key, name, text string // of the list, of a dictionary in it
	depth := 0                 // of dictionaries
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Job{}, err
		}
		switch t := tok.(type) {
		case xml.StartElement:
			if text = ""; t.Name.Local == "dict" {
				depth++
			}
		case xml.CharData:
			text += string(t)
		case xml.EndElement:
			switch {
			case t.Name.Local == "dict":
				depth--
			case t.Name.Local == "key" && depth == 1:
				key = text
			case t.Name.Local == "key":
				name = text
			case t.Name.Local == "string":
				j.take(key, name, text)
			}
		}
	}
	if len(j.Exec) == 0 {
		return Job{}, errors.New("no ProgramArguments in it")
	}
	return j, nil
}

// take keeps a text of the list.
func (j *Job) take(key, name, text string) {
	switch key {
	case "ProgramArguments":
		if text != externalSupervisor {
			j.Exec = append(j.Exec, text)
		}
	case "EnvironmentVariables":
		j.Env = append(j.Env, name+"="+text)
	case "WorkingDirectory":
		j.Dir = text
	case "StandardOutPath":
		j.Out = text
	case "StandardErrorPath":
		j.Err = text
	}
}
