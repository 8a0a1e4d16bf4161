// SPDX-License-Identifier: MIT

package config

import "strings"

// Pinned is the variable that tells whether the Docker image is the user's choice: "1" or
// "0". No config key bridges to it.
const Pinned = "TERMINAL_DOCKER_IMAGE_PINNED"

// Two variables that are more than text: what is pinned, and where a terminal starts.
const (
	imageEnv = "TERMINAL_DOCKER_IMAGE"
	dirEnv   = "TERMINAL_CWD"
)

// prefix is what the name of every variable of a terminal policy begins with.
const prefix = "TERMINAL_"

// terminalKey is the section of a config that is bridged to variables.
const terminalKey = "terminal"

// bridged is one key of the terminal section and the variable that carries it.
type bridged struct {
	key  string
	kind kind
}

// env returns the variable's name.
func (b bridged) env() string {
	if b.key == "backend" {
		return "TERMINAL_ENV"
	}
	return prefix + strings.ToUpper(b.key)
}

// bridge is the table of keys that reach the terminal tools as variables. Keys that are not
// here are read from the config by those who need them.
func bridge() []bridged {
	return []bridged{
		{"backend", kindWord},
		{"modal_mode", kindWord},
		{"degraded_mode", kindWord},
		{"cwd", kindDir},
		{"temp_dir", kindText},
		{"timeout", kindNumber},
		{"lifetime_seconds", kindNumber},
		{"docker_image", kindImage},
		{"docker_forward_env", kindList},
		{"singularity_image", kindImage},
		{"modal_image", kindImage},
		{"daytona_image", kindImage},
		{"vercel_runtime", kindText},
		{"vercel_image", kindImage},
		{"ssh_host", kindText},
		{"ssh_user", kindText},
		{"ssh_port", kindWhole},
		{"ssh_key", kindText},
		{"container_cpu", kindNumber},
		{"container_memory", kindNumber},
		{"container_disk", kindNumber},
		{"container_persistent", kindBool},
		{"docker_volumes", kindList},
		{"docker_env", kindTable},
		{"docker_mount_cwd_to_workspace", kindBool},
		{"docker_network", kindBool},
		{"docker_extra_args", kindList},
		{"docker_shm_size", kindText},
		{"docker_run_as_host_user", kindBool},
		{"docker_snap_compat", kindBool},
		{"docker_persist_across_processes", kindBool},
		{"docker_shared_container_key", kindText},
		{"docker_orphan_reaper", kindBool},
		{"sandbox_dir", kindText},
		{"persistent_shell", kindBool},
	}
}

// BridgeNames returns the names of all variables that the terminal section of a config can
// put into a process, with [Pinned]: what a child for another profile must not inherit.
func BridgeNames() []string {
	var out []string
	for _, b := range bridge() {
		out = append(out, b.env())
	}
	return append(out, Pinned)
}

// BridgeName returns the variable that carries a config key, "" if there is none.
func BridgeName(path ...string) string {
	if len(path) == 2 && path[0] == terminalKey {
		if b, ok := bridgedKey(path[1]); ok {
			return b.env()
		}
	}
	return ""
}

func bridgedKey(key string) (bridged, bool) {
	for _, b := range bridge() {
		if b.key == key {
			return b, true
		}
	}
	return bridged{}, false
}

// Backends returns the names a terminal backend can have.
func Backends() []string {
	return []string{"local", "docker", "ssh", "singularity", "modal", "daytona", "vercel_sandbox"}
}
