// SPDX-License-Identifier: MIT

package images

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	argPattern = regexp.MustCompile(`(?m)^ARG ([A-Z][A-Z0-9_]*)(?:=(.*))?$`)
	// Choices are made by a build, not by the lock.
	choices = regexp.MustCompile(`^(BROWSER|CUA|VERSION|REVISION|NPM_REGISTRY)$`)
)

// Defaults returns the build arguments of a Dockerfile with their defaults. An argument that
// is there twice with different defaults is an error, as is one without a default.
func Defaults(dockerfile []byte) (map[string]string, error) {
	out := map[string]string{}
	for _, m := range argPattern.FindAllSubmatch(dockerfile, -1) {
		name, value := string(m[1]), string(m[2])
		if old, ok := out[name]; ok && old != value {
			return nil, fmt.Errorf("%s: ARG %s is %q and %q", DockerfilePath, name, old, value)
		}
		if !strings.Contains(string(m[0]), "=") {
			return nil, fmt.Errorf("%s: ARG %s has no default", DockerfilePath, name)
		}
		out[name] = value
	}
	return out, nil
}

// Agree compares the defaults of the Dockerfile with the lock and returns what differs, one
// line each: "docker build" without this program has to use the same pins.
func (l Lock) Agree(dockerfile []byte) ([]string, error) {
	got, err := Defaults(dockerfile)
	if err != nil {
		return nil, err
	}
	var out []string
	want := l.Args()
	for name, w := range want {
		if g, ok := got[name]; !ok {
			out = append(out, fmt.Sprintf("%s: no ARG %s, which %s sets to %q", DockerfilePath, name, LockPath, w))
		} else if g != w {
			out = append(out, fmt.Sprintf("%s: ARG %s is %q, %s says %q", DockerfilePath, name, g, LockPath, w))
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok && !choices.MatchString(name) {
			out = append(out, fmt.Sprintf("%s: ARG %s is pinned by nothing in %s", DockerfilePath, name, LockPath))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Follow returns the Dockerfile with the defaults that the lock says.
func (l Lock) Follow(dockerfile []byte) []byte {
	args := l.Args()
	return argPattern.ReplaceAllFunc(dockerfile, func(line []byte) []byte {
		name := string(argPattern.FindSubmatch(line)[1])
		if value, ok := args[name]; ok {
			return []byte("ARG " + name + "=" + value)
		}
		return line
	})
}
