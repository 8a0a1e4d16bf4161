// SPDX-License-Identifier: MIT

package service

import (
	"encoding/xml"
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
	for _, w := range append(slices.Clone(s.Exec), "--external-supervisor") {
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
