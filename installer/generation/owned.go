// SPDX-License-Identifier: MIT

package generation

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Replaceable says why a program is not ours to replace, as a [*Refusal] with the words of what
// to do instead: it comes from a store or a package, or this user cannot write its directory.
func Replaceable(ctx context.Context, path string) error {
	no := func(msg, fix string) error {
		return &Refusal{File: path, Msg: msg, Fix: fix, Code: exitcode.Managed}
	}
	if runtime.GOOS == "windows" {
		return no("Windows lets nobody replace a program that runs", "stop the gateway, and put the new program there by hand")
	}
	real, err := atomicfile.Resolve(path)
	if err != nil {
		return err
	}
	switch owner, err := home.FileOwner(path); {
	case err != nil:
		return err
	case owner == "nix store":
		return no("is in the Nix store, which is rebuilt and never written", "update the flake's input and switch (nixos-rebuild, home-manager)")
	case owner == "another user's link", owner == "no regular file", owner == "immutable file":
		return no("cannot be replaced: "+owner, "run the command as the user who owns it")
	}
	if strings.Contains(filepath.ToSlash(real), "/Cellar/") {
		return no("was installed with Homebrew", "brew upgrade")
	}
	for _, p := range []string{real, path} {
		if manager, fix := packageOf(ctx, p); manager != "" {
			return no("belongs to the package "+manager, fix)
		}
	}
	why, err := home.DirOwner(filepath.Dir(real))
	if err != nil || why == "" {
		return err
	}
	return no("cannot be replaced: "+why+" "+filepath.Dir(real), "run the same command with sudo, or as the user who owns it")
}

// packageOf returns the package that a file belongs to, "" if none of the managers that are here
// knows it, and how that one updates it.
func packageOf(ctx context.Context, path string) (name, fix string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, m := range []struct {
		argv []string
		fix  string
	}{
		{[]string{"/usr/bin/dpkg-query", "-S", path}, "apt-get install with the .deb of the new version"},
		{[]string{"/usr/bin/rpm", "-qf", "--queryformat", "%{NAME}", path}, "dnf upgrade"},
		{[]string{"/sbin/apk", "info", "-q", "--who-owns", path}, "apk upgrade"},
		{[]string{"/usr/bin/pacman", "-Qqo", path}, "pacman -Syu"},
	} {
		cmd := exec.CommandContext(ctx, m.argv[0], m.argv[1:]...)
		cmd.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		out, err := cmd.Output()
		if err == nil {
			name, _, _ := strings.Cut(strings.TrimSpace(string(out)), ":")
			return name, m.fix
		}
	}
	return "", ""
}
