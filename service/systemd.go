// SPDX-License-Identifier: MIT

package service

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// File is something to be put on the host.
type File struct {
	Name string // relative to the manager's directory of units
	Data string
}

// Systemd returns the files of the service for systemd: the unit, its drop-ins, and the socket
// unit if there are sockets. The drop-ins hold what a person may want to relax or replace
// without touching the unit. The error is an [*InputError].
func (s Spec) Systemd() ([]File, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	unit := s.Name + ".service"
	files := []File{{unit, s.unit().String()}}
	for _, d := range []struct {
		name string
		opts []Option
	}{{"10-hardening.conf", s.hardening()}, {"20-credentials.conf", s.credentials()}} {
		if len(d.opts) > 0 {
			files = append(files, File{unit + ".d/" + d.name, Unit{s.Home, d.opts}.String()})
		}
	}
	for i := range s.Sockets {
		files = append(files, File{s.socketUnit(i), Unit{s.Home, s.socket(i)}.String()})
	}
	return files, nil
}

func (s Spec) unit() Unit {
	u := Unit{Home: s.Home}
	add := func(section, name, value string) { u.Options = append(u.Options, Option{section, name, value}) }
	description := s.Description
	if description == "" {
		description = Description
	}
	add("Unit", "Description", percent(description))
	if s.Scope == System {
		after := "network-online.target"
		if s.UID > 0 {
			after += " user@" + strconv.Itoa(s.UID) + ".service"
		}
		add("Unit", "Wants", after)
		add("Unit", "After", after)
	}
	add("Unit", "RequiresMountsFor", quoted(s.Home))
	add("Unit", "StartLimitIntervalSec", "0")
	s.service(add)
	if s.Scope == System {
		add("Install", "WantedBy", "multi-user.target")
	} else {
		add("Install", "WantedBy", "default.target")
	}
	for i := range s.Sockets {
		add("Install", "Also", s.socketUnit(i))
	}
	return u
}

// service adds the section that says how it runs and ends.
func (s Spec) service(add func(section, name, value string)) {
	set := func(name, value string) { add("Service", name, value) }
	set("Type", "notify")
	set("NotifyAccess", "main")
	if s.Watchdog > 0 {
		set("WatchdogSec", seconds(s.Watchdog))
	}
	if s.Scope == System {
		set("User", s.Account)
		set("Group", s.Group)
	}
	if len(s.Before) > 0 {
		set("ExecStartPre", "-"+execLine(s.Before))
	}
	set("ExecStart", execLine(s.Exec))
	set("ExecReload", "/bin/kill -USR1 $MAINPID")
	set("WorkingDirectory", percent(s.Home))
	for _, kv := range s.environment() {
		set("Environment", quoted(kv))
	}
	set("Restart", "always")
	set("RestartSec", "100ms")
	set("RestartForceExitStatus", strconv.Itoa(int(exitcode.Restart)))
	set("SuccessExitStatus", strconv.Itoa(int(exitcode.Restart)))
	set("RestartPreventExitStatus", strconv.Itoa(int(exitcode.Config)))
	set("KillMode", "mixed")
	set("KillSignal", "SIGTERM")
	if len(s.Sockets) > 0 {
		names := make([]string, len(s.Sockets))
		for i := range s.Sockets {
			names[i] = s.socketUnit(i)
		}
		set("Sockets", strings.Join(names, " "))
	}
	set("TimeoutStartSec", "120")
	set("TimeoutStopSec", seconds(s.StopBudget()))
	set("OOMPolicy", "continue")
	set("StandardOutput", "journal")
	set("StandardError", "journal")
}

// environment is what the manager gives the service, as NAME=value.
func (s Spec) environment() []string {
	out := []string{"HERMES_HOME=" + s.Home, "HERMES_SUPERVISED_CHILD=1"}
	if s.Scope == System {
		out = append(out, "HOME="+s.AccountHome, "USER="+s.Account, "LOGNAME="+s.Account)
	}
	if len(s.Path) > 0 {
		out = append(out, "PATH="+strings.Join(s.Path, ":"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		out = append(out, name+"="+s.Env[name])
	}
	return out
}

func seconds(d time.Duration) string { return strconv.Itoa(int((d + time.Second - 1) / time.Second)) }

func (s Spec) credentials() []Option {
	var out []Option
	for _, c := range s.Credentials {
		out = append(out, Option{"Service", "LoadCredential", c.Name + ":" + percent(c.Path)})
	}
	return out
}

// socketUnit is the name of a listener's unit: systemd names listeners by unit. A profile's id has
// no dot, so none is that of another service's.
func (s Spec) socketUnit(i int) string {
	if i == 0 {
		return s.Name + ".socket"
	}
	return s.Name + "." + s.Sockets[i].Name + ".socket"
}

func (s Spec) socket(i int) []Option {
	k := s.Sockets[i]
	return []Option{
		{"Unit", "Description", percent(Description) + ", listener " + k.Name},
		{"Socket", "ListenStream", percent(k.Listen)},
		{"Socket", "FileDescriptorName", k.Name},
		{"Socket", "Service", s.Name + ".service"},
		{"Socket", "NoDelay", "true"},
		{"Socket", "Backlog", "1024"},
		{"Install", "WantedBy", "sockets.target"},
	}
}

// hardening keeps the service from what it does not need.
func (s Spec) hardening() []Option {
	profile := s.Hardening
	if profile == "" {
		profile = Unlocked
		if s.Scope == System {
			profile = Balanced
		}
	}
	if profile == Unlocked {
		return nil
	}
	var out []Option
	set := func(name, value string) { out = append(out, Option{"Service", name, value}) }
	for _, name := range []string{
		"NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectClock", "ProtectControlGroups", "ProtectHostname",
		"ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables", "RestrictSUIDSGID", "RestrictRealtime",
		"LockPersonality", "RemoveIPC",
	} {
		set(name, "true")
	}
	set("UMask", "0027")
	set("CapabilityBoundingSet", "")
	set("AmbientCapabilities", "")
	set("ProtectSystem", "strict")
	set("ReadWritePaths", words(append([]string{s.Home}, s.Writable...)))
	set("ProtectHome", s.protectHome())
	set("ProtectProc", "invisible")
	set("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX AF_NETLINK")
	set("SystemCallArchitectures", "native")
	if profile == Agent {
		set("RestrictNamespaces", "user mnt pid net ipc uts")
		set("SystemCallFilter", "@system-service @mount seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self")
		set("SystemCallErrorNumber", "EPERM")
		return out
	}
	set("RestrictNamespaces", "true")
	set("SystemCallFilter", "@system-service")
	set("SystemCallFilter", "~@privileged")
	set("SystemCallErrorNumber", "EPERM")
	return out
}

// protectHome hides people's homes, but not one that the service's own lies in.
func (s Spec) protectHome() string {
	for _, dir := range append([]string{s.Home, s.AccountHome}, s.Writable...) {
		for _, hidden := range []string{"/home", "/root", "/run/user"} {
			if dir == hidden || strings.HasPrefix(dir, hidden+"/") {
				return "read-only"
			}
		}
	}
	return "true"
}

// words is a list of paths.
func words(paths []string) string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		if w := quoted(p); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return strings.Join(out, " ")
}

// Directives lists every directive that a unit of ours may have, with the reason for it.
func Directives() map[string]string { return maps.Clone(reasons()) }
