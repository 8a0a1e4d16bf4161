// SPDX-License-Identifier: MIT

package approval

// ID names a rule. IDs are stable: they are stored in allowlists and written to logs.
type ID string

// Level is how strong a finding is.
type Level uint8

// Danger can be approved, granted and switched off. Must needs a person each time, in every
// mode. Floor is refused.
const (
	Danger Level = iota
	Must
	Floor
)

// Finding is one reason why a command does not simply run.
type Finding struct {
	ID         ID
	Level      Level
	Text       string // one line for the person, without any part of the command
	Start, End int    // bytes of the command it is about

	key   string // what a grant of a user's own rule is called; "" = by ID
	human bool   // no guardian may answer
}

// keys are the allowlist entries that cover the finding; a new grant stores the first.
// Upstream's wording comes first, so that its gateway understands what ours wrote.
func (f Finding) keys() []string {
	if f.key != "" {
		return []string{f.key}
	}
	return append(f.ID.upstream(), string(f.ID))
}

// Floors.
const (
	FloorWipe       ID = "floor.wipe"
	FloorDisk       ID = "floor.disk"
	FloorForkBomb   ID = "floor.fork_bomb"
	FloorKillAll    ID = "floor.kill_all"
	FloorShutdown   ID = "floor.shutdown"
	FloorGateway    ID = "floor.gateway"
	FloorApprovals  ID = "floor.approval_files"
	FloorSudoStdin  ID = "floor.sudo_stdin"
	FloorMalformed  ID = "floor.malformed"
	FloorTooComplex ID = "floor.too_complex"
	FloorDenied     ID = "deny"
)

// What cannot be checked.
const (
	MustUnparsable ID = "check.unparsable"
	MustLimit      ID = "check.limit"
	MustBroken     ID = "check.failed"
)

// Dangerous commands.
const (
	RmRecursive     ID = "rm.recursive"
	RmAbsolute      ID = "rm.absolute"
	FindDelete      ID = "find.delete"
	FindExecRm      ID = "find.exec_rm"
	XargsRm         ID = "xargs.rm"
	PermWorld       ID = "perm.world_writable"
	PermSystem      ID = "perm.system"
	PermChownRoot   ID = "perm.chown_root"
	DiskFormat      ID = "disk.format"
	DiskCopy        ID = "disk.copy"
	WriteSystem     ID = "write.system"
	WriteDevice     ID = "write.device"
	WriteHermes     ID = "write.hermes"
	WriteCredential ID = "write.credential"
	WriteStartup    ID = "write.startup"
	WriteEnv        ID = "write.env"
	ServiceStop     ID = "service.stop"
	KillForce       ID = "kill.force"
	KillLookup      ID = "kill.lookup"
	ShellRemote     ID = "shell.remote"
	ShellPipe       ID = "shell.pipe"
	ShellOpaque     ID = "shell.opaque"
	EvalOpaque      ID = "eval.opaque"
	CommandOpaque   ID = "command.opaque"
	InterpInline    ID = "interp.inline"
	InterpStdin     ID = "interp.stdin"
	ExecOption      ID = "exec.option"
	ExecEnv         ID = "exec.env"
	NetShell        ID = "net.shell"
	NetMetadata     ID = "net.metadata"
	GitForcePush    ID = "git.force_push"
	GitResetHard    ID = "git.reset_hard"
	GitClean        ID = "git.clean"
	GitBranchDelete ID = "git.branch_delete"
	SudoFlag        ID = "sudo.flag"
	ContainerStop   ID = "container.stop"
	ContainerRemote ID = "container.remote"
	ContainerHost   ID = "container.host"
	PkgUninstall    ID = "pkg.uninstall"
	GatewayStart    ID = "gateway.start"
	HermesTrust     ID = "hermes.trust"
	OddText         ID = "text.deceptive"
)

func (id ID) level() Level {
	switch id {
	case FloorWipe, FloorDisk, FloorForkBomb, FloorKillAll, FloorShutdown, FloorGateway,
		FloorApprovals, FloorSudoStdin, FloorMalformed, FloorTooComplex, FloorDenied:
		return Floor
	case MustUnparsable, MustLimit, MustBroken:
		return Must
	}
	return Danger
}

func (id ID) text() string {
	switch id {
	case FloorWipe:
		return "recursive delete of the root file system, a system directory or the home directory"
	case FloorDisk:
		return "overwrites or formats a disk"
	case FloorForkBomb:
		return "fork bomb"
	case FloorKillAll:
		return "kills init or every process"
	case FloorShutdown:
		return "shuts down or reboots the machine"
	case FloorGateway:
		return "stops, restarts or kills this gateway from inside"
	case FloorApprovals:
		return "changes or removes the files that hold the approval settings"
	case FloorSudoStdin:
		return "feeds a password to sudo (sudo -S)"
	case FloorMalformed:
		return "malformed executable payload: a quote is never closed"
	case FloorTooComplex:
		return "too long or too deeply nested to check; write it to a script file and run that"
	case FloorDenied:
		return "matches a deny rule of the user (approvals.deny)"
	case MustUnparsable:
		return "cannot be parsed, so nobody knows what it does"
	case MustLimit:
		return "too many possibilities to check them all"
	case MustBroken:
		return "the check itself failed"
	}
	return id.dangerText()
}

func (id ID) dangerText() string {
	if t := id.fileText(); t != "" {
		return t
	}
	switch id {
	case ServiceStop:
		return "stops or restarts a system service"
	case KillForce:
		return "force-kills processes by name or pattern"
	case KillLookup:
		return "kills processes found by a search"
	case ShellRemote:
		return "runs downloaded content as a program"
	case ShellPipe:
		return "pipes text into a shell that cannot be seen beforehand"
	case ShellOpaque:
		return "shell -c with text put together at run time"
	case EvalOpaque:
		return "eval or source of text put together at run time"
	case CommandOpaque:
		return "the command's name is only known at run time"
	case InterpInline:
		return "runs inline code in another language (-c, -e)"
	case InterpStdin:
		return "feeds code to an interpreter"
	case ExecOption:
		return "an option makes the tool run another program"
	case ExecEnv:
		return "an environment variable makes programs run other code"
	case NetShell:
		return "connects a shell or file to the network"
	case NetMetadata:
		return "reads cloud instance credentials (metadata endpoint)"
	}
	return id.toolText()
}

func (id ID) fileText() string {
	switch id {
	case RmRecursive:
		return "recursive delete of more than a part of the working directory"
	case RmAbsolute:
		return "deletes outside the working directory"
	case FindDelete:
		return "find -delete"
	case FindExecRm:
		return "find -exec with a delete command"
	case XargsRm:
		return "xargs with a delete command"
	case PermWorld:
		return "makes files writable for everybody"
	case PermSystem:
		return "changes owner or mode of a system or home directory, recursively"
	case PermChownRoot:
		return "recursive chown to root"
	case DiskFormat:
		return "formats a file system"
	case DiskCopy:
		return "copies a raw disk"
	case WriteSystem:
		return "writes to or deletes from a system directory"
	case WriteDevice:
		return "writes to a device"
	case WriteHermes:
		return "changes Hermes' own state or secrets"
	case WriteCredential:
		return "changes credentials or SSH files"
	case WriteStartup:
		return "changes what runs at login, on a schedule or with git"
	case WriteEnv:
		return "overwrites an env or config file"
	}
	return ""
}

func (id ID) toolText() string {
	switch id {
	case GitForcePush:
		return "git force push or remote delete (rewrites remote history)"
	case GitResetHard:
		return "git reset --hard (destroys uncommitted changes)"
	case GitClean:
		return "git clean with force (deletes untracked files)"
	case GitBranchDelete:
		return "git branch force delete"
	case SudoFlag:
		return "sudo opens a shell or asks a helper for the password"
	case ContainerStop:
		return "stops, kills or restarts containers"
	case ContainerRemote:
		return "talks to another container daemon"
	case ContainerHost:
		return "gives a container the host's files or privileges"
	case PkgUninstall:
		return "uninstalls packages"
	case GatewayStart:
		return "starts a gateway outside its service"
	case HermesTrust:
		return "lets new people in, or starts an agent without approvals"
	case OddText:
		return "contains characters that hide or imitate others: what is shown is not what runs"
	}
	return string(id)
}

// upstream lists the allowlist entries with which upstream's gateway grants the same thing.
// Where its class is wider or narrower than ours there is none: the user is asked once more.
func (id ID) upstream() []string {
	switch id {
	case RmRecursive:
		return []string{"recursive delete", "recursive delete (long flag)", "recursive delete (flags after operands)"}
	case RmAbsolute:
		return []string{"delete in root path"}
	case FindDelete:
		return []string{"find -delete"}
	case FindExecRm:
		return []string{"find -exec/-execdir rm"}
	case XargsRm:
		return []string{"xargs with rm"}
	case PermWorld:
		return []string{"world/other-writable permissions", "recursive world/other-writable (long flag)"}
	case PermChownRoot:
		return []string{"recursive chown to root", "recursive chown to root (long flag)"}
	case DiskFormat:
		return []string{"format filesystem"}
	case DiskCopy:
		return []string{"disk copy"}
	case ServiceStop:
		return []string{"stop/restart system service"}
	case KillForce:
		return []string{"force kill processes"}
	case ShellRemote:
		return []string{"pipe remote content to shell"}
	case ShellOpaque:
		return []string{"shell command via -c/-lc flag"}
	case InterpInline:
		return []string{"script execution via -e/-c flag"}
	case InterpStdin:
		return []string{"script execution via heredoc"}
	case NetMetadata:
		return []string{"cloud metadata endpoint access (instance credentials)"}
	case GitForcePush:
		return []string{"git force push (rewrites remote history)", "git force push short flag (rewrites remote history)"}
	case GitResetHard:
		return []string{"git reset --hard (destroys uncommitted changes)"}
	case GitClean:
		return []string{"git clean with force (deletes untracked files)"}
	case GitBranchDelete:
		return []string{"git branch force delete"}
	case SudoFlag:
		return []string{"sudo with privilege flag (stdin/askpass/shell/list)", "sudo with combined-flag privilege escalation"}
	case ContainerStop:
		return []string{"docker restart/stop/kill (container lifecycle)"}
	case PkgUninstall:
		return []string{"package manager uninstall"}
	}
	return nil
}
