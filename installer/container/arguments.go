// SPDX-License-Identifier: MIT

package container

import (
	"path"
	"slices"
	"strings"
)

// Program is the name by which the image's program is called.
const Program = "hermes-appliance"

// entryPaths are the programs of older images and of templates that were made for them: the
// image has links by these names to its own program (H#34192, H#66679).
func entryPaths() []string {
	return []string{"tini", "init", "entrypoint.sh", "entrypoint-dispatch.sh", "main-wrapper.sh"}
}

// Arguments returns a process's arguments without its name. Where it was called by the name of
// an entry point of older images they begin with "container", and what was meant for an init or
// for a wrapper is gone.
func Arguments(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	if !slices.Contains(entryPaths(), path.Base(argv[0])) {
		return argv[1:]
	}
	return append([]string{"container"}, unwrapped(argv)...)
}

// unwrapped drops entry points, one in another, and their options.
func unwrapped(argv []string) []string {
	for len(argv) > 0 && slices.Contains(entryPaths(), path.Base(argv[0])) {
		name := path.Base(argv[0])
		argv = argv[1:]
		if name == "tini" {
			argv = afterInit(argv)
		}
	}
	if len(argv) > 0 && slices.Contains([]string{"hermes", Program}, path.Base(argv[0])) {
		argv = argv[1:]
		if len(argv) > 0 && argv[0] == "container" {
			argv = argv[1:]
		}
	}
	return argv
}

// afterInit drops the options of tini, those of versions to come included: nothing of them may
// reach a command.
func afterInit(args []string) []string {
	for len(args) > 0 {
		switch a := args[0]; {
		case a == "--":
			return args[1:]
		case a == "-p" || a == "-e": // they have a value
			args = args[min(2, len(args)):]
		case strings.HasPrefix(a, "-"):
			args = args[1:]
		default:
			return args
		}
	}
	return nil
}

// Gateway reports whether a container's arguments ask for the gateway, and what is left for it:
// none do, "up", "gateway" and "gateway run". Options of upstream's command that say how it is
// supervised mean nothing here and are dropped.
func Gateway(args []string) (options []string, ok bool) {
	args = unwrapped(args)
	if len(args) > 0 {
		switch args[0] {
		case "up":
			args = args[1:]
		case "gateway":
			args = args[1:]
			if len(args) > 0 && args[0] == "run" {
				args = args[1:]
			} else if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
				return nil, false
			}
		default:
			if !strings.HasPrefix(args[0], "--home") && !strings.HasPrefix(args[0], "--profile") {
				return nil, false
			}
		}
	}
	dropped := []string{"--replace", "--accept-hooks", "--no-supervise", "--external-supervisor"}
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool { return slices.Contains(dropped, a) }), true
}
