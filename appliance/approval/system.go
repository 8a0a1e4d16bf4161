// SPDX-License-Identifier: MIT

package approval

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// kill looks at signals to everything, to init, to the gateway, and to what a search found.
func (k *checker) kill(c command) {
	if c.name != "kill" {
		k.killByName(c)
		return
	}
	args := c.args
	signal := false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		if args[0] == "-l" || args[0] == "-L" {
			return
		}
		if pid := killTarget(args[0]); pid && (signal || len(args) == 1) {
			break
		}
		if args[0] == "-s" || args[0] == "-n" || args[0] == "--signal" {
			args = args[1:]
		}
		signal = true
		args = args[min(1, len(args)):]
	}
	for _, a := range args {
		a = strings.TrimSpace(a)
		n, err := strconv.Atoi(a)
		switch {
		case a == "--":
		case strings.Contains(a, pidGateway), err == nil && k.ctx.GatewayPID > 0 && (n == k.ctx.GatewayPID || n == -k.ctx.GatewayPID):
			k.emit(FloorGateway)
		case err == nil && (n == 1 || n == -1):
			k.emit(FloorKillAll)
		case strings.Contains(a, ownHole):
			k.when("if the search finds it", func() { k.emit(FloorGateway) })
		case strings.Contains(a, pidOther):
			k.emit(KillLookup)
		}
	}
}

// killTarget reports whether an argument that looks like a signal may be a process group.
func killTarget(a string) bool {
	n, err := strconv.Atoi(a)
	return err == nil && n < 0
}

func (k *checker) killByName(c command) {
	opts, patterns := options(c.args, "uUgGPtsnFo")
	if c.name == "killall5" {
		k.emit(FloorKillAll)
		return
	}
	if len(patterns) == 0 && len(opts) > 0 && !hasOption(opts, "lV", "version") {
		k.emit(KillForce)
	}
	for _, p := range patterns {
		switch {
		case k.namesGateway(p), c.name == "pkill" && matchesGateway(p), hasOption(opts, "r", "regexp") && matchesGateway(p):
			k.emit(FloorGateway)
		case hasHole(p):
			k.emit(KillForce)
		}
	}
	if slices.ContainsFunc(c.args, func(a string) bool { return sigkill.MatchString(a) }) || c.name == "killall" && hasOption(opts, "r", "regexp") {
		k.emit(KillForce)
	}
}

var sigkill = regexp.MustCompile(`^-?(9|(SIG)?KILL|s?9|s?(SIG)?KILL|-signal=(9|(SIG)?KILL))$`)

// matchesGateway reports whether a process search would find this gateway.
func matchesGateway(pattern string) bool {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return true
	}
	return re.MatchString("hermes-appliance gateway run") || re.MatchString("hermes gateway run")
}

// namesGateway reports whether a text names this gateway's process, unit or container.
func (k *checker) namesGateway(s string) bool {
	s = strings.ToLower(s)
	if strings.Contains(s, "hermes") || s == "gateway" || s == pidGateway {
		return true
	}
	for _, u := range k.ctx.Units {
		u = strings.ToLower(u)
		for _, name := range []string{u, strings.TrimSuffix(u, path.Ext(u))} {
			if s == name || strings.ContainsAny(s, "*?[") && hits(s, name) {
				return true
			}
		}
	}
	return strings.ContainsAny(s, "*?[") && (hits(s, "hermes-gateway") || hits(s, "hermes-gateway.service"))
}

// service looks at service managers: the machine, this gateway, then any other service.
func (k *checker) service(c command) {
	_, words := options(c.args, "HMnopstT")
	if len(words) == 0 {
		return
	}
	if slices.Contains(words, "start") && slices.ContainsFunc(words, shutdownUnit.MatchString) {
		k.emit(FloorShutdown)
		return
	}
	if c.name == "loginctl" && (strings.HasPrefix(words[0], "terminate") || strings.HasPrefix(words[0], "kill") || words[0] == "disable-linger") {
		k.emit(ServiceStop)
		return
	}
	if (c.name == "systemctl" || c.name == "loginctl") && slices.Contains([]string{"poweroff", "reboot", "halt", "kexec", "soft-reboot", "rescue", "emergency", "isolate", "suspend", "hibernate", "exit"}, words[0]) {
		k.emit(FloorShutdown)
		return
	}
	stops := slices.ContainsFunc(words, func(w string) bool {
		return slices.Contains([]string{
			"stop", "restart", "try-restart", "reload-or-restart", "disable", "mask", "kill", "force-reload",
			"bootout", "kickstart", "unload", "remove", "shutdown", "clean", "revert", "down", "exit", "condrestart",
		}, w)
	})
	if !stops && (c.name != "sv" || !strings.HasPrefix(words[0], "d")) && (c.name != "s6-svc" || len(words) >= len(c.args)) {
		return
	}
	if slices.ContainsFunc(words, k.namesGateway) || slices.Contains(words, "all") && c.name == "supervisorctl" {
		k.emit(FloorGateway)
		return
	}
	k.emit(ServiceStop)
}

var (
	shutdownUnit = regexp.MustCompile(`^(poweroff|reboot|halt|kexec|soft-reboot|rescue|emergency|shutdown|exit|runlevel[0-6])\.target$`)
	busShutdown  = regexp.MustCompile(`(?i)\.Manager[. ](PowerOff|Reboot|Halt|KExec|SoftReboot|Suspend|Hibernate|HybridSleep|ScheduleShutdown)|org\.freedesktop\.login1\.Manager.*\b(PowerOff|Reboot|Halt)`)
	busStop      = regexp.MustCompile(`(?i)\b(Stop|Restart|TryRestart|ReloadOrRestart|Kill|Mask|Disable)Unit(Files)?\b`)
)

// bus looks at messages to the service manager, which do what its own command does.
func (k *checker) bus(c command) {
	text := strings.Join(c.args, " ")
	switch {
	case busShutdown.MatchString(text):
		k.emit(FloorShutdown)
	case !busStop.MatchString(text):
	case slices.ContainsFunc(c.args, func(a string) bool {
		_, value, typed := strings.Cut(a, ":") // dbus-send: string:NAME
		return k.namesGateway(strings.Trim(a, `'"`)) || typed && k.namesGateway(value)
	}):
		k.emit(FloorGateway)
	default:
		k.emit(ServiceStop)
	}
}

// hermes looks at our own command line: an agent must not end the gateway it runs in, and not
// answer its own questions.
func (k *checker) hermes(c command) {
	words := subcommands(c.args)
	if len(words) == 0 {
		words = []string{""}
	}
	one := func(list ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(list, w) })
	}
	dry := slices.ContainsFunc(c.args, func(a string) bool {
		return slices.Contains([]string{"--dry-run", "--check", "--diff", "--print", "--list", "--explain"}, a)
	})
	switch {
	case slices.Contains(words, "gateway") && one("stop", "restart", "uninstall", "kill"),
		slices.Contains(words, "service") && one("stop", "restart", "uninstall", "disable"),
		slices.Contains(words, "gateway") && one("migrate") && !dry,
		words[0] == "generations" && one("rollback") && !dry,
		slices.Contains([]string{"update", "upgrade", "down", "install", "uninstall", "stop", "restart"}, words[0]) && !dry:
		k.emit(FloorGateway)
	case slices.Contains(words, "config") && slices.ContainsFunc(words, func(w string) bool { return approvalKey.MatchString(w) }),
		slices.Contains(words, "config") && one("edit", "import", "reset"),
		words[0] == "approvals" && slices.Contains(c.args, "--apply"):
		k.emit(FloorApprovals)
	case slices.Contains([]string{"profile", "profiles"}, words[0]) && one("delete", "remove", "rm"),
		words[0] == "migrate" && !dry, words[0] == "config" && one("merge"),
		words[0] == "config" && one("set", "unset") && slices.ContainsFunc(words, func(w string) bool { return powerKey.MatchString(w) }), words[0] == "env" && one("assemble"),
		words[0] == "checkpoints" && one("restore"), words[0] == "doctor" && slices.Contains(c.args, "--fix"):
		k.emit(WriteHermes)
	case words[0] == "sandbox" && one("switch", "keep"): // a question to a person
		k.emit(HermesTrust)
	case slices.Contains(words, "gateway") && one("run", "start"), words[0] == "up", words[0] == "start":
		k.emit(GatewayStart)
	case one("approve"), slices.Contains(c.args, "--yolo"), words[0] == "config" && slices.ContainsFunc(words, func(w string) bool { return trustKey.MatchString(w) }):
		k.emit(HermesTrust)
	}
}

// subcommands are the operands of our command line, in lower case.
func subcommands(args []string) []string {
	var out []string
	for i := 0; i < len(args); i++ {
		switch a := strings.ToLower(args[i]); {
		case a == "-p" || a == "--profile" || a == "--home" || a == "-m" || a == "--model":
			i++
		case !strings.HasPrefix(a, "-"):
			out = append(out, a)
		}
	}
	return out
}

var (
	approvalKey = regexp.MustCompile(`^(approvals|command_allowlist|command_approval_required|security)(\.|=|$)`)
	// powerKey are settings that start programs, say where commands run and what they are
	// given, or where credentials are sent.
	powerKey = regexp.MustCompile(`^(terminal|mcp_servers|hooks|secrets|plugins|providers|custom_providers|cron)(\.|=|$)|(^|\.)(base_url|api_base)(=|$)`)
	trustKey = regexp.MustCompile(`^(gateway|platforms)(\.|=|$)`)
)

// kernel looks at what changes file systems and drivers of the running system.
func (k *checker) kernel(c command) {
	opts, rest := options(c.args, "toLU")
	switch c.name {
	case "mount", "umount":
		if c.name == "umount" && hasOption(opts, "a", "all") || len(rest) > 0 && slices.ContainsFunc(k.resolve(rest[len(rest)-1]), func(p string) bool {
			return isProtected(p) || k.class(p, p) == WriteSystem
		}) {
			k.emit(WriteSystem)
		}
	default:
		if len(rest) > 0 {
			k.emit(WriteSystem)
		}
	}
}

// disk looks at tools that format or wipe disks.
func (k *checker) disk(c command) {
	opts, rest := options(c.args, "")
	has := func(list ...string) bool {
		return slices.ContainsFunc(c.args, func(a string) bool { return slices.Contains(list, a) })
	}
	var writes, formats bool
	switch {
	case makesFS.MatchString(c.name):
		formats = true
	case c.name == "mkswap", c.name == "mdadm" && has("--create", "-C", "--zero-superblock"):
		writes = true
	case c.name == "wipefs":
		writes = hasOption(opts, "af", "all") && !hasOption(opts, "n", "no-act")
	case c.name == "blkdiscard", c.name == "ddrescue", c.name == "badblocks" && hasOption(opts, "wn", ""):
		writes = true
	case c.name == "sgdisk", c.name == "sfdisk", c.name == "gdisk", c.name == "cfdisk", c.name == "fdisk":
		writes = !hasOption(opts, "lpdiv", "list") && !hasOption(opts, "", "print") && !hasOption(opts, "", "dump")
	case c.name == "parted":
		writes = has("mklabel", "mktable", "mkpart", "rm", "resizepart")
	case c.name == "hdparm":
		writes = slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "--security-erase") })
	case c.name == "nvme":
		writes = has("format", "sanitize")
	case c.name == "cryptsetup":
		writes = has("luksFormat", "erase", "luksErase", "reencrypt")
	case c.name == "pvcreate", c.name == "vgremove", c.name == "lvremove", c.name == "pvremove",
		(c.name == "zfs" || c.name == "zpool") && has("destroy"):
		k.emit(DiskFormat)
	case c.name == "btrfs":
		if has("delete") && has("subvolume") {
			k.removeTree(c.args[len(c.args)-1])
		}
	case c.name == "diskutil":
		if slices.ContainsFunc(c.args, func(a string) bool { return diskutil.MatchString(a) }) {
			k.emit(FloorDisk)
		}
	}
	if !writes && !formats {
		return
	}
	for _, t := range rest {
		for _, p := range k.resolve(t) {
			if disk, maybe := isDisk(p); disk {
				k.emit(FloorDisk)
			} else if maybe || startsUnknown(t) {
				k.when("if it is a disk", func() { k.emit(FloorDisk) })
			}
		}
	}
	if formats && len(rest) > 0 {
		k.emit(DiskFormat)
	}
}

var (
	makesFS  = regexp.MustCompile(`^(mkfs(\..+)?|mke2fs|mkntfs|mkdosfs|newfs(_.+)?|zpool)$`)
	diskutil = regexp.MustCompile(`(?i)^(erase(disk|volume)|zerodisk|randomdisk|secureerase|reformat|partitiondisk)$`)
)
