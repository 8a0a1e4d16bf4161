// SPDX-License-Identifier: MIT

package approval

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

func (k *checker) remove(c command) {
	opts, targets := options(c.args, "")
	if c.name == "shred" {
		opts, targets = options(c.args, "ns")
	}
	recursive := c.name == "rm" && hasOption(opts, "rR", "recursive") || c.name == "rimraf"
	if c.name == "rm" && slices.Contains(opts, "no-preserve-root") {
		k.emit(FloorWipe)
	}
	for _, t := range targets {
		if recursive {
			k.removeTree(t)
			continue
		}
		k.write(t)
		for _, p := range k.resolve(t) {
			if isProtected(p) && strings.Contains(p, "*") {
				k.emit(RmAbsolute)
			}
		}
	}
}

// removeTree looks at the recursive removal of one path.
func (k *checker) removeTree(target string) {
	for _, p := range k.places(target, strings.HasSuffix(target, "/")) {
		switch {
		case isProtected(p):
			k.emit(FloorWipe)
			continue
		case k.holdsApprovals(p, true):
			k.emit(FloorApprovals)
			continue
		}
		if id := k.class(p, target); id != "" {
			k.emit(id)
		}
		switch wide, outside := k.wide(p, target); {
		case outside:
			k.emit(RmAbsolute)
		case wide:
			k.emit(RmRecursive)
		}
	}
	if spelled := path.Clean(target); target != "" && (spelled == "." || spelled == "*" || spelled == "..") {
		k.emit(RmRecursive)
	}
}

// find looks at -delete, -exec and what writes files. An -exec with a delete command counts
// for the places where find starts.
func (k *checker) find(c command) {
	var places []string
	i := 0
	for ; i < len(c.args) && !strings.HasPrefix(c.args[i], "-") && c.args[i] != "(" && c.args[i] != "!"; i++ {
		places = append(places, c.args[i])
	}
	if len(places) == 0 {
		places = []string{"."}
	}
	filtered := findFilters(c.args[i:])
	for ; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case a == "-delete":
			k.emit(FindDelete)
			k.findWipes(places, filtered)
		case a == "-exec", a == "-execdir", a == "-ok", a == "-okdir", a == "-x", a == "--exec", a == "-X", a == "--exec-batch":
			argv := c.args[i+1:]
			if end := slices.IndexFunc(argv, func(s string) bool { return s == ";" || s == "+" }); end >= 0 {
				argv = argv[:end]
			}
			k.findExec(c, places, argv, filtered)
			i += len(argv)
		case a == "-fprint", a == "-fprintf", a == "-fls", a == "-fprint0":
			if i+1 < len(c.args) {
				k.write(c.args[i+1])
			}
		case strings.HasPrefix(a, "-") && strings.ContainsAny(a, "*?["+holes):
			k.emit(CommandOpaque) // may become -delete or -exec
		}
	}
}

// findFilters reports whether find picks some files only.
func findFilters(args []string) bool {
	for i, a := range args {
		switch strings.TrimPrefix(a, "-") {
		case "name", "iname", "path", "ipath", "wholename", "regex", "iregex", "mtime", "mmin", "atime", "ctime", "newer", "size", "user", "group", "perm", "inum", "samefile":
			if i+1 < len(args) && strings.Trim(args[i+1], "*.?/") != "" {
				return true
			}
		case "empty":
			return true
		}
	}
	return false
}

func (k *checker) findWipes(places []string, filtered bool) {
	for _, place := range places {
		for _, p := range k.resolve(place) {
			switch {
			case !filtered && isProtected(p):
				k.emit(FloorWipe)
			case !filtered && k.holdsApprovals(p, true):
				k.emit(FloorApprovals)
			case k.class(p, place) != "":
				k.emit(k.class(p, place))
			}
		}
	}
}

func (k *checker) findExec(c command, places, argv []string, filtered bool) {
	if deletes(argv) {
		k.emit(FindExecRm)
		k.findWipes(places, filtered)
	}
	for _, place := range places {
		found := place
		if filtered {
			found = strings.TrimSuffix(place, "/") + "/" + qhole
		}
		one := slices.Clone(argv)
		for i := range one {
			one[i] = strings.ReplaceAll(one[i], "{}", found)
		}
		k.run(one, input{}, c.node)
	}
}

func (k *checker) permissions(c command) {
	opts, rest := options(c.args, "")
	if c.name == "chmod" && len(c.args) > 0 && strings.HasPrefix(c.args[0], "-") && symbolic.MatchString(c.args[0]) {
		opts, rest = nil, c.args // chmod -w file
	}
	if len(rest) == 0 {
		return
	}
	recursive := hasOption(opts, "R", "recursive")
	if c.name == "chmod" && worldWritable.MatchString(rest[0]) {
		k.emit(PermWorld)
	}
	if c.name == "chown" && recursive && rootOwner.MatchString(rest[0]) {
		k.emit(PermChownRoot)
	}
	for _, t := range rest[1:] {
		for _, p := range k.resolve(t) {
			if isProtected(p) && p != "~" || recursive && (isProtected(p) || k.class(p, t) == WriteSystem) {
				k.emit(PermSystem)
			}
		}
	}
}

var (
	symbolic      = regexp.MustCompile(`^-[rwxst]+$`)
	worldWritable = regexp.MustCompile(`^[0-7]*[2367]$|(^|,)([ugoa]*[oa][ugoa]*)?[+=][rxst]*w`)
	rootOwner     = regexp.MustCompile(`^(root|0)?(:(root|0)?)?$|^root`)
)

// writer looks at the files that common tools write.
func (k *checker) writer(c command) {
	switch c.name {
	case "cp", "mv", "install", "ln", "rsync", "scp":
		k.copier(c)
	case "dd", "dcfldd", "dc3dd":
		for _, a := range c.args {
			for _, name := range []string{"of=", "hof=", "wipe="} {
				if to, ok := strings.CutPrefix(a, name); ok {
					k.write(to)
				}
			}
			if from, ok := strings.CutPrefix(a, "if="); ok {
				if disk, maybe := isDisk(k.resolve(from)[0]); disk || maybe {
					k.emit(DiskCopy)
				}
			}
		}
	case "tee", "truncate", "touch", "patch":
		_, targets := options(c.args, map[string]string{"truncate": "sr", "touch": "dtr", "patch": "diprBDFVYz"}[c.name])
		for _, t := range targets {
			if c.name != "touch" || isDiskPath(k.resolve(t)) {
				k.write(t)
			}
			if c.name == "tee" && c.in.present && !hasHole(t) {
				k.files[k.resolve(t)[0]] = c.in
			}
		}
	case "sed", "perl", "ruby":
		if c.name == "sed" && slices.ContainsFunc(c.args, sedRuns.MatchString) {
			k.emit(ExecOption)
		}
		if inPlace(c) {
			_, targets := options(c.args, "")
			for _, t := range targets {
				k.write(t)
			}
		}
	case "curl", "wget":
		k.download(c)
	case "tar", "unzip":
		k.unpack(c)
	}
}

func isDiskPath(paths []string) bool {
	disk, _ := isDisk(paths[0])
	return disk
}

// inPlace reports whether sed, perl or ruby edit files.
func inPlace(c command) bool {
	for _, a := range c.args {
		if strings.HasPrefix(a, "--in-place") || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && inPlaceFlag.MatchString(a) {
			return true
		}
	}
	return false
}

var sedRuns = regexp.MustCompile(`(^|[;{\n])\s*(\d+|\$|/[^/]*/)?\s*e(\s+\S|\s*$)|s(/(?:[^/\\]|\\.)*/(?:[^/\\]|\\.)*/|\|[^|]*\|[^|]*\||#[^#]*#[^#]*#)[gpiImM0-9]*e`)

var inPlaceFlag = regexp.MustCompile(`^-[a-zA-Z0-9]*i`)

func (k *checker) copier(c command) {
	_, rest := options(c.args, map[string]string{"install": "tSgmo", "rsync": "eTBMf", "scp": "cDFiJloPSX"}[c.name])
	if c.name == "cp" || c.name == "mv" || c.name == "ln" {
		_, rest = options(c.args, "tS")
	}
	dest := ""
	for i, a := range c.args {
		switch {
		case (a == "-t" || a == "--target-directory") && c.name != "rsync" && i+1 < len(c.args):
			dest = c.args[i+1]
		case strings.HasPrefix(a, "--target-directory="):
			dest = a[len("--target-directory="):]
		case c.name == "rsync" && (a == "-e" || a == "--rsh") && i+1 < len(c.args):
			k.payload(c.args[i+1], input{}, nil)
		}
	}
	sources := rest
	if dest == "" {
		if len(rest) < 2 {
			return
		}
		dest, sources = rest[len(rest)-1], rest[:len(rest)-1]
	}
	k.write(dest)
	to := k.resolve(dest)[0]
	for _, s := range sources {
		if base := path.Base(s); !hasHole(s) && base != "/" && !strings.Contains(base, "*") {
			k.write(dest + "/" + base)
		}
		switch {
		case c.name == "mv":
			k.moved(s, dest)
			fallthrough
		case c.name == "cp", c.name == "install":
			k.copies[to] = k.resolve(s)[0]
		case c.name == "ln" && len(k.links) < maxValues:
			k.links[to] = k.resolve(s)[0]
		}
	}
	if c.name == "rsync" && slices.ContainsFunc(c.args, func(a string) bool { return strings.HasPrefix(a, "--del") }) {
		k.removeTree(dest)
	}
}

// moved looks at what mv takes away.
func (k *checker) moved(source, dest string) {
	for _, p := range k.resolve(source) {
		switch {
		case isProtected(p):
			k.emit(FloorWipe)
		case k.holdsApprovals(p, true):
			k.emit(FloorApprovals)
		case k.class(p, source) == WriteSystem:
			k.emit(WriteSystem)
		case path.Clean(dest) == "/dev/null":
			k.emit(RmRecursive)
		}
	}
}

// download looks at where curl and wget put what they fetch, and remembers that it is remote.
func (k *checker) download(c command) {
	short, long := "-o", "--output"
	if c.name == "wget" {
		short, long = "-O", "--output-document"
	}
	named := false
	for i, a := range c.args {
		to := ""
		switch {
		case (a == long || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, short[1:])) && i+1 < len(c.args):
			to = c.args[i+1]
		case strings.HasPrefix(a, long+"="):
			to = a[len(long)+1:]
		case strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(a, short[1:]):
			_, to, _ = strings.Cut(a, short[1:])
		}
		if to == "" || to == "-" {
			continue
		}
		named = true
		k.write(to)
		if !hasHole(to) {
			k.files[k.resolve(to)[0]] = input{present: true, remote: true}
		}
	}
	if named {
		return
	}
	for _, a := range c.args { // curl -O, wget: named after the last part of the URL
		if base := path.Base(a); strings.Contains(a, "://") && !hasHole(base) {
			k.files[k.resolve(base)[0]] = input{present: true, remote: true}
		}
	}
}

// unpack looks at where archives go and at options that run programs.
func (k *checker) unpack(c command) {
	for i, a := range c.args {
		dir := ""
		switch {
		case (a == "-C" || a == "--directory" || a == "-d") && i+1 < len(c.args):
			dir = c.args[i+1]
		case strings.HasPrefix(a, "--directory="):
			dir = a[len("--directory="):]
		case strings.HasPrefix(a, "-C") && c.name == "tar", strings.HasPrefix(a, "-d") && c.name == "unzip":
			dir = a[2:]
		}
		if dir != "" {
			for _, p := range k.resolve(dir) {
				if p == "/" || p == "~" {
					k.emit(WriteSystem)
				}
			}
			k.write(dir)
		}
		switch {
		case c.name == "tar" && tarRuns.MatchString(a):
			k.emit(ExecOption)
			if _, text, ok := strings.Cut(a, "exec="); ok {
				k.payload(text, input{}, nil)
			}
			if _, text, ok := strings.Cut(a, "command="); ok {
				k.payload(text, input{}, nil)
			}
		case c.name == "tar" && strings.HasPrefix(a, "-") && strings.Contains(a, "f") && i+1 < len(c.args) && !strings.HasPrefix(a, "--") && strings.Contains(a, "c"):
			k.write(c.args[i+1])
		}
	}
}

var tarRuns = regexp.MustCompile(`^--(checkpoint-action=.*exec=|to-command|use-compress-program|rsh-command|new-volume-script|info-script)`)
