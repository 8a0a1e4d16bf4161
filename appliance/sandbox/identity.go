// SPDX-License-Identifier: MIT

package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
)

// Labels of our containers. The first four are upstream's too, so that each program
// finds and reaps the other's; the others are ours.
const (
	labelAgent   = "hermes-agent"
	labelTask    = "hermes-task-id"
	labelProfile = "hermes-profile"
	labelEgress  = "hermes-egress"
	labelID      = "hermes-appliance-id"
	labelHome    = "hermes-appliance-home"
	labelConfig  = "hermes-appliance-config"
	labelMaker   = "hermes-appliance-maker" // a number of one attempt to make a container
)

// egressOff says that no proxy stands between a container and the network.
const egressOff = "off"

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// labelValue makes a text safe for a label, as upstream does.
func labelValue(s string) string {
	if s == "" {
		return "unknown"
	}
	s = reUnsafe.ReplaceAllString(s, "_")
	return s[:min(len(s), 63)]
}

// profileLabel is what the profile is filed under. A shared key is lossy as a label, so its
// digest goes with it.
func (i Identity) profileLabel() string {
	if i.SharedKey == "" {
		return labelValue(i.Profile)
	}
	clean := labelValue(i.SharedKey)
	return clean[:min(len(clean), 50)] + "-" + digest(i.SharedKey)[:12]
}

// homeLabel is what the home is filed under; containers of a shared key belong to no home.
func (i Identity) homeLabel() string {
	if i.SharedKey != "" {
		return "shared"
	}
	return digest(i.Home)[:24]
}

func (i Identity) task() string {
	if i.Task == "" {
		return "default"
	}
	return i.Task
}

// key tells identities apart. The raw task is in it, since two tasks can have one label.
func (i Identity) key() string {
	text, _ := json.Marshal([]string{i.homeLabel(), i.profileLabel(), i.task(), i.private}) //nolint:errcheck,errchkjson // strings only
	return digest(string(text))[:12]
}

// labels are what a container of an identity carries.
func (i Identity) labels() map[string]string {
	return map[string]string{
		labelAgent: "1", labelTask: labelValue(i.task()), labelProfile: i.profileLabel(), labelEgress: egressOff,
		labelID: i.key(), labelHome: i.homeLabel(),
	}
}

// name is the name of the one container of an identity. It is what keeps two processes from
// making two: an engine gives a name once.
func (i Identity) name() string { return "hermes-" + i.key() }

// nextSuffix marks the container that is about to take the place of the one with the name.
const nextSuffix = "-next"

// groups are the settings that cannot change while a container lives, without the image: a
// container of another image is judged by the pin, one of other settings is reported.
func (s Spec) groups() []group {
	return []group{
		{"limits", "l", []any{s.CPUs, s.MemoryMB, s.DiskMB, s.Pids, s.Shm}},
		{"mounts", "m", []any{s.Data, s.Project, s.Volumes, s.Mounts}},
		{"user", "u", []any{s.User, s.SnapCompat}},
		{"network", "n", s.NoNetwork},
		{"environment", "e", s.Env},
		{"docker_extra_args", "x", s.ExtraArgs},
	}
}

type group struct {
	name, letter string
	value        any
}

// fingerprint is a label value: a digest of each group.
func (s Spec) fingerprint() string {
	var parts []string
	for _, g := range s.groups() {
		text, _ := json.Marshal(g.value) //nolint:errcheck,errchkjson // texts and numbers
		parts = append(parts, g.letter+digest(string(text))[:8])
	}
	return strings.Join(parts, "-")
}

// changes names the groups that differ from what a container was made with; a container
// without the label is not known to differ.
func (s Spec) changes(label string) []string {
	if label == "" {
		return nil
	}
	had := strings.Split(label, "-")
	var out []string
	for i, part := range strings.Split(s.fingerprint(), "-") {
		if !slices.Contains(had, part) {
			out = append(out, s.groups()[i].name)
		}
	}
	return out
}

// random returns 32 hexadecimal digits that nobody can guess.
func random() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// sameImage reports whether two names mean the same image: engines write short names out.
func sameImage(a, b string) bool { return fullName(a) == fullName(b) }

func fullName(s string) string {
	s = strings.TrimPrefix(strings.TrimSpace(s), "docker.io/")
	s = strings.TrimPrefix(s, "index.docker.io/")
	s = strings.TrimPrefix(s, "library/")
	if strings.HasPrefix(s, "sha256:") || strings.Contains(s, "@") {
		return s
	}
	if slash := strings.LastIndexByte(s, '/'); !strings.Contains(s[slash+1:], ":") {
		s += ":latest"
	}
	return s
}
