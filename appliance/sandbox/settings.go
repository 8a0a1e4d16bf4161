// SPDX-License-Identifier: MIT

package sandbox

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Settings are the readers of a profile's terminal policy; *config.Terminal is one. A key
// that is not set reads as the zero value.
type Settings interface {
	Text(key string) string
	Bool(key string) bool
	Number(key string) float64
	Strings(key string) []string
	Table(key string) map[string]string
}

// Place is what a profile's sandbox settings do not say.
type Place struct {
	Home    string // the directory of the profile's home
	Key     string // its key, see [Identity]
	Profile string
	Task    string // "" = default
	Pinned  bool   // the pin verdict on terminal.docker_image
	User    string // UID:GID of this process, for docker_run_as_host_user; "" = the system has none
	Mounts  []Mount
}

// FromSettings makes the Spec of a profile's docker terminal. A local directory in
// terminal.cwd becomes its Project if docker_mount_cwd_to_workspace says so; any other one
// that is absolute is a directory in the container. Entries of docker_env are not secrets by
// contract; docker_forward_env is not looked at: it is for each command.
func FromSettings(t Settings, p Place) (Spec, error) {
	s := Spec{
		Identity: Identity{Home: p.Key, Profile: p.Profile, Task: p.Task, SharedKey: strings.TrimSpace(t.Text("docker_shared_container_key"))},
		Image:    strings.TrimSpace(t.Text("docker_image")), Pinned: p.Pinned,
		Keep:    t.Bool("docker_persist_across_processes"),
		Volumes: t.Strings("docker_volumes"), Mounts: p.Mounts,
		CPUs: t.Number("container_cpu"), MemoryMB: int64(t.Number("container_memory")), DiskMB: int64(t.Number("container_disk")),
		Shm: strings.TrimSpace(t.Text("docker_shm_size")), NoNetwork: !t.Bool("docker_network"),
		SnapCompat: t.Bool("docker_snap_compat"), ExtraArgs: t.Strings("docker_extra_args"),
	}
	if t.Bool("container_persistent") {
		dir := t.Text("sandbox_dir")
		if dir == "" {
			dir = filepath.Join(p.Home, "sandboxes")
		}
		s.Data = filepath.Join(dir, "docker", TaskDir(p.Task))
	}
	if t.Bool("docker_run_as_host_user") {
		s.User = p.User
	}
	cwd := t.Text("cwd")
	switch {
	case t.Bool("docker_mount_cwd_to_workspace") && cwd != "" && isDir(cwd):
		s.Project = cwd
	case strings.HasPrefix(cwd, "/") && !ofHost(cwd):
		s.Workdir = cwd
	}
	table := t.Table("docker_env")
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if !reEnvName.MatchString(name) {
			return s, &EngineError{Kind: ErrConfig, Op: "make a sandbox", Msg: fmt.Sprintf("terminal.docker_env: %q is no name of a variable", name)}
		}
		s.Env = append(s.Env, name+"="+table[name])
	}
	return s, s.check()
}

var reEnvName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}

// ofHost reports whether a directory can only be meant on the host.
func ofHost(p string) bool {
	return below(p, "/home") || below(p, "/Users")
}

// reUnsafe finds what a directory name for a task may not contain: a colon would be read as
// the end of a path by the engine, a slash as another directory.
var reUnsafe = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// TaskDir returns the name of the directory that holds the data of a task: the task itself
// where it is a safe name, as upstream has it, else one with a digest, so that no two tasks
// share a directory.
func TaskDir(task string) string {
	const longest, digits = 128, 12
	if task == "" {
		return "default"
	}
	clean := reUnsafe.ReplaceAllString(task, "_")
	if clean == task && len(task) <= longest && task != "." && task != ".." && !strings.HasSuffix(task, ".") {
		return task
	}
	stem := strings.Trim(clean[:min(len(clean), longest-digits-1)], "._")
	if stem == "" {
		stem = "task"
	}
	return stem + "-" + digest(task)[:digits]
}
