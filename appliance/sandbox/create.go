// SPDX-License-Identifier: MIT

package sandbox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
)

// capabilities that a container keeps: root in it can write into directories that belong to
// the host's user, and package managers can give files away. The last two let a root init
// become another user, and are left out where the container begins as one.
func capabilities(s Spec) []string {
	out := []string{"DAC_OVERRIDE", "CHOWN", "FOWNER"}
	if s.User == "" {
		out = append(out, "SETUID", "SETGID")
	}
	return out
}

// build makes what goes to the engine. Options of docker_extra_args come last and win.
func build(s Spec, l layout, ownInit bool) (made, error) {
	run := "rw,noexec,nosuid,size=64m"
	if ownInit {
		run = "rw,exec,nosuid,size=64m"
	}
	pids := s.Pids
	if pids == 0 {
		pids = DefaultPids
	}
	m := made{
		config: &container.Config{
			Image: s.Image, Cmd: []string{"sleep", "infinity"}, WorkingDir: l.workdir, User: s.User,
			Env: slices.Clone(s.Env), Labels: s.labels(),
		},
		host: &container.HostConfig{
			CapDrop: []string{"ALL"}, CapAdd: capabilities(s),
			Tmpfs: map[string]string{
				"/tmp": "rw,exec,nosuid,size=512m", "/var/tmp": "rw,noexec,nosuid,size=256m", "/run": run,
			},
			Binds: l.binds, Mounts: l.mounts,
			Resources: container.Resources{NanoCPUs: int64(s.CPUs * 1e9), Memory: s.MemoryMB << 20, PidsLimit: &pids},
		},
	}
	maps.Copy(m.host.Tmpfs, l.tmpfs)
	m.config.Labels[labelConfig] = s.fingerprint()
	if !s.SnapCompat {
		m.host.SecurityOpt = []string{"no-new-privileges"}
		m.host.Init = new(!ownInit)
	}
	if s.User != "" && !slices.ContainsFunc(s.Env, func(kv string) bool { return strings.HasPrefix(kv, "HOME=") }) {
		m.config.Env = append(m.config.Env, "HOME="+rootDir) // it is theirs; without it HOME is /
	}
	if s.Shm != "" && s.Shm != "0" {
		n, err := units.RAMInBytes(s.Shm)
		if err != nil {
			return m, &EngineError{Kind: ErrConfig, Op: "make a sandbox", Msg: fmt.Sprintf("terminal.docker_shm_size: %q is no size; expected one like 1g", s.Shm)}
		}
		m.host.ShmSize = n
	}
	if s.DiskMB > 0 {
		m.host.StorageOpt = map[string]string{"size": strconv.FormatInt(s.DiskMB, 10) + "m"}
	}
	if err := lockDown(s, m); err != nil {
		return m, err
	}
	if err := applyExtra(m, s.ExtraArgs); err != nil {
		return m, err
	}
	return m, nil
}

// lockDown takes the network away. An option that gives it back is refused: two settings
// that contradict each other must not end with the weaker one.
func lockDown(s Spec, m made) error {
	if !s.NoNetwork {
		return nil
	}
	if n := networkOf(s.ExtraArgs); n != "" && n != "none" {
		return &EngineError{
			Kind: ErrConfig, Op: "make a sandbox",
			Msg: fmt.Sprintf("terminal.docker_network is false and terminal.docker_extra_args has --network %s", n), Fix: "remove one of them",
		}
	}
	m.host.NetworkMode = "none"
	return nil
}

// withoutLimits takes the limits away that a host without cgroups cannot keep.
func (m made) withoutLimits() made {
	h := *m.host
	h.NanoCPUs, h.Memory, h.MemorySwap, h.MemoryReservation, h.PidsLimit, h.CPUShares = 0, 0, 0, 0, nil, 0
	return made{m.config, &h}
}

// withoutDisk takes the limit of the container's own layer away.
func (m made) withoutDisk() made {
	h := *m.host
	h.StorageOpt = nil
	return made{m.config, &h}
}
