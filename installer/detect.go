// SPDX-License-Identifier: MIT

package installer

import (
	"os"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/service"
)

// Detect says which service manager a host has. Where there is none that could be told
// anything the error is a [*Refusal] in words of its own. An image that is being made is one
// of systemd's, unless it only has OpenRC.
func (h Host) Detect() (Kind, error) {
	switch h.OS {
	case "darwin":
		return Launchd, nil
	case "windows":
		return Tasks, nil
	}
	if h.Offline {
		if !h.exists("/usr/lib/systemd") && !h.exists("/lib/systemd") && h.exists("/sbin/openrc-run") {
			return OpenRC, nil
		}
		return Systemd, nil
	}
	switch {
	case h.Getenv("TERMUX_VERSION") != "" || strings.Contains(h.Getenv("PREFIX"), "com.termux"):
		return "", &Refusal{
			Reason: "termux", Msg: "Termux has no service manager",
			Fix: "run hermes-appliance up in a session that Termux:Boot starts", Code: exitcode.Error,
		}
	case h.read("/proc/1/comm") == "s6-svscan" && h.exists("/run/s6/basedir"):
		return "", &Refusal{
			Reason: "s6", Msg: "this container's s6 supervises the gateway: its slots are automatic, and there is no service to install, start or stop",
			Fix: "s6-svc -r /run/service/gateway-default restarts it", Code: exitcode.OK,
		}
	case h.exists("/run/systemd/system"):
		return Systemd, nil
	case h.wsl():
		return "", &Refusal{
			Reason: "wsl", File: "/etc/wsl.conf", Msg: "WSL runs without systemd here",
			Fix: "put systemd=true below [boot], run wsl --shutdown in Windows, and install again", Code: exitcode.Error,
		}
	case h.exists("/run/openrc"):
		return OpenRC, nil
	case h.container():
		return "", &Refusal{
			Reason: "container", Msg: "this container has no service manager, and so no service to install, start or stop: run hermes-appliance gateway run as its command",
			Fix: "docker update --restart unless-stopped CONTAINER has the engine start it again", Code: exitcode.OK,
		}
	case h.exists("/etc/init.d") && (h.exists("/usr/sbin/update-rc.d") || h.exists("/sbin/chkconfig")):
		return SysV, nil
	}
	return "", &Refusal{
		Reason: "no-manager", Msg: "no service manager was found (looked for systemd, OpenRC, SysV init)",
		Fix: "run hermes-appliance gateway run under the one you have", Code: exitcode.Error,
	}
}

// exists also counts what cannot be looked at as missing: nothing there could be used.
func (h Host) exists(p string) bool {
	_, err := os.Stat(h.path(p))
	return err == nil
}

// read returns a short file of the host, "" if it cannot be read.
func (h Host) read(p string) string {
	data, err := os.ReadFile(h.path(p))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (h Host) wsl() bool {
	return h.Getenv("WSL_DISTRO_NAME") != "" || strings.Contains(strings.ToLower(h.read("/proc/sys/kernel/osrelease")), "microsoft")
}

func (h Host) container() bool {
	return h.exists("/.dockerenv") || h.exists("/run/.containerenv") || h.Getenv("container") != ""
}

// sudo refuses a user's service that is asked for through sudo.
func (h Host) sudo(scope service.Scope) error {
	who := h.Getenv("SUDO_USER")
	if scope != service.User || h.UID != 0 || who == "" || who == "root" || h.Offline || h.OS == "windows" {
		return nil
	}
	return &Refusal{
		Reason: "sudo", Msg: "a user's service is not installed through sudo: root's own manager would get it",
		Fix: "run it as " + who + " without sudo, or sudo hermes-appliance install --system", Code: exitcode.Error,
	}
}

// scoped refuses a scope that this process or manager cannot serve.
func (h Host) scoped(kind Kind, scope service.Scope, self Account, verb string) error {
	switch {
	case kind == OpenRC || kind == SysV:
		if scope == service.User {
			return &Refusal{Reason: "scope", Msg: string(kind) + " has no services of users", Fix: "sudo hermes-appliance install --system", Code: exitcode.Usage}
		}
	case kind != Systemd && kind != SCM && scope == service.System:
		return &Refusal{Reason: "scope", Msg: "the service belongs to a user here, and starts when that user logs in", Fix: "hermes-appliance install --user", Code: exitcode.Usage}
	}
	if h.Offline || h.OS == "windows" {
		return nil
	}
	switch {
	case scope == service.System && h.UID != 0:
		return &Refusal{Reason: "not-root", Msg: "a system service needs root", Fix: "sudo hermes-appliance " + verb + " --system, or --user for one of your own", Code: exitcode.Error}
	case scope == service.User && self.UID != h.UID:
		return &Refusal{Reason: "other-user", Msg: "a user's service is installed by that user", Fix: "log in as " + self.Name + ", or use --system", Code: exitcode.Error}
	}
	return nil
}
