// SPDX-License-Identifier: MIT

package sandbox

import (
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
)

// made is a container as it goes to the engine.
type made struct {
	config *container.Config
	host   *container.HostConfig
}

// option is one option of docker run: whether it takes a value, and what it changes.
type option struct {
	alone bool // takes no value; "--x=false" is refused
	apply func(m made, value string) error
}

// ExtraFlags returns the names of the options that docker_extra_args may have, sorted. All
// others are refused by name.
func ExtraFlags() []string { return slices.Sorted(maps.Keys(options())) }

// applyExtra applies docker_extra_args, in order, over what is there.
func applyExtra(m made, args []string) error {
	known := options()
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		if short, ok := shortFlags()[name]; ok {
			name = short
		}
		o, ok := known[name]
		switch {
		case !ok:
			return extraError("%s cannot be used here", name)
		case o.alone && has:
			return extraError("%s takes no value", name)
		case !o.alone && !has:
			if i++; i == len(args) {
				return extraError("%s needs a value", name)
			}
			value = args[i]
		}
		if err := o.apply(m, value); err != nil {
			return extraError("%s %s: %v", name, value, err)
		}
	}
	return nil
}

func extraError(format string, args ...any) error {
	return &EngineError{
		Kind: ErrConfig, Op: "make a sandbox", Msg: "terminal.docker_extra_args: " + fmt.Sprintf(format, args...),
		Fix: "the options that can be used are in docs/sandbox.md",
	}
}

func shortFlags() map[string]string {
	return map[string]string{"-v": "--volume", "-e": "--env", "-u": "--user", "-h": "--hostname", "-m": "--memory", "-c": "--cpu-shares", "--net": "--network"}
}

// networkOf returns the network that docker_extra_args choose, "" if none.
func networkOf(args []string) string {
	m := made{config: &container.Config{}, host: &container.HostConfig{}}
	for i, a := range args {
		name, value, has := strings.Cut(a, "=")
		if name != "--network" && name != "--net" {
			continue
		}
		if !has && i+1 < len(args) {
			value = args[i+1]
		}
		m.host.NetworkMode = container.NetworkMode(value)
	}
	return string(m.host.NetworkMode)
}

// options is the subset of docker run that is translated. Options that would change how the
// container is found, run or removed are not in it.
func options() map[string]option {
	out := map[string]option{}
	maps.Copy(out, resourceOptions())
	maps.Copy(out, securityOptions())
	maps.Copy(out, networkOptions())
	maps.Copy(out, generalOptions())
	return out
}

func value(apply func(m made, v string) error) option { return option{apply: apply} }

// text is an option that sets one text.
func text(field func(m made) *string) option {
	return value(func(m made, v string) error { *field(m) = v; return nil })
}

// list is an option that adds to a list.
func list(field func(m made) *[]string) option {
	return value(func(m made, v string) error { *field(m) = append(*field(m), v); return nil })
}

// size is an option whose value is bytes, like 512m.
func size(field func(m made) *int64) option {
	return value(func(m made, v string) (err error) { *field(m), err = units.RAMInBytes(v); return err })
}

// number is an option whose value is a whole number.
func number(field func(m made) *int64) option {
	return value(func(m made, v string) (err error) { *field(m), err = strconv.ParseInt(v, 10, 64); return err })
}

func flag(apply func(m made)) option {
	return option{alone: true, apply: func(m made, _ string) error { apply(m); return nil }}
}

func resourceOptions() map[string]option {
	return map[string]option{
		"--memory":             size(func(m made) *int64 { return &m.host.Memory }),
		"--memory-reservation": size(func(m made) *int64 { return &m.host.MemoryReservation }),
		"--memory-swap": value(func(m made, v string) (err error) {
			if m.host.MemorySwap = -1; v != "-1" {
				m.host.MemorySwap, err = units.RAMInBytes(v)
			}
			return err
		}),
		"--shm-size":    size(func(m made) *int64 { return &m.host.ShmSize }),
		"--cpus":        value(func(m made, v string) (err error) { m.host.NanoCPUs, err = nanoCPUs(v); return err }),
		"--cpu-shares":  number(func(m made) *int64 { return &m.host.CPUShares }),
		"--cpuset-cpus": text(func(m made) *string { return &m.host.CpusetCpus }),
		"--pids-limit": value(func(m made, v string) error {
			n, err := strconv.ParseInt(v, 10, 64)
			m.host.PidsLimit = &n
			return err
		}),
		"--ulimit": value(func(m made, v string) error {
			u, err := units.ParseUlimit(v)
			if err == nil {
				m.host.Ulimits = append(m.host.Ulimits, u)
			}
			return err
		}),
		"--storage-opt": value(func(m made, v string) error { return setPair(&m.host.StorageOpt, v) }),
		"--gpus":        value(gpus),
	}
}

func nanoCPUs(s string) (int64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err == nil && f < 0 {
		err = fmt.Errorf("expected a positive number")
	}
	return int64(f * 1e9), err
}

// gpus takes "all" or a number of them.
func gpus(m made, v string) error {
	n := -1
	if v != "all" {
		var err error
		if n, err = strconv.Atoi(v); err != nil {
			return fmt.Errorf("expected all or a number")
		}
	}
	m.host.DeviceRequests = append(m.host.DeviceRequests, container.DeviceRequest{Count: n, Capabilities: [][]string{{"gpu"}}})
	return nil
}

func securityOptions() map[string]option {
	return map[string]option{
		"--cap-add":      list(func(m made) *[]string { return &m.host.CapAdd }),
		"--cap-drop":     list(func(m made) *[]string { return &m.host.CapDrop }),
		"--security-opt": list(func(m made) *[]string { return &m.host.SecurityOpt }),
		"--privileged":   flag(func(m made) { m.host.Privileged = true }),
		"--read-only":    flag(func(m made) { m.host.ReadonlyRootfs = true }),
		"--user":         text(func(m made) *string { return &m.config.User }),
		"--group-add":    list(func(m made) *[]string { return &m.host.GroupAdd }),
		"--userns":       value(func(m made, v string) error { m.host.UsernsMode = container.UsernsMode(v); return nil }),
		"--ipc":          value(func(m made, v string) error { m.host.IpcMode = container.IpcMode(v); return nil }),
		"--sysctl":       value(func(m made, v string) error { return setPair(&m.host.Sysctls, v) }),
		"--runtime":      text(func(m made) *string { return &m.host.Runtime }),
		"--device":       value(device),
	}
}

func device(m made, v string) error {
	parts := strings.Split(v, ":")
	d := container.DeviceMapping{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
	if len(parts) > 1 {
		d.PathInContainer = parts[1]
	}
	if len(parts) > 2 {
		d.CgroupPermissions = parts[2]
	}
	if !path.IsAbs(d.PathOnHost) || len(parts) > 3 {
		return fmt.Errorf("expected PATH[:PATH[:rwm]]")
	}
	m.host.Devices = append(m.host.Devices, d)
	return nil
}

func networkOptions() map[string]option {
	return map[string]option{
		"--network":    value(func(m made, v string) error { m.host.NetworkMode = container.NetworkMode(v); return nil }),
		"--add-host":   value(func(m made, v string) error { m.host.ExtraHosts = append(m.host.ExtraHosts, hostEntry(v)); return nil }),
		"--dns":        value(dns),
		"--dns-search": list(func(m made) *[]string { return &m.host.DNSSearch }),
		"--dns-option": list(func(m made) *[]string { return &m.host.DNSOptions }),
		"--hostname":   text(func(m made) *string { return &m.config.Hostname }),
		"--publish":    value(publish),
	}
}

// hostEntry writes NAME=ADDRESS as the engine has it.
func hostEntry(v string) string {
	if name, addr, ok := strings.Cut(v, "="); ok {
		return name + ":" + addr
	}
	return v
}

func dns(m made, v string) error {
	a, err := netip.ParseAddr(v)
	if err == nil {
		m.host.DNS = append(m.host.DNS, a)
	}
	return err
}

// publish takes [ADDRESS:][PORT:]PORT[/PROTOCOL].
func publish(m made, v string) error {
	i := strings.LastIndexByte(v, ':')
	port, err := network.ParsePort(v[i+1:])
	if err != nil {
		return err
	}
	var b network.PortBinding
	if i >= 0 {
		addr, hostPort := "", v[:i]
		if j := strings.LastIndexByte(hostPort, ':'); j >= 0 {
			addr, hostPort = strings.Trim(hostPort[:j], "[]"), hostPort[j+1:]
		}
		if addr != "" {
			if b.HostIP, err = netip.ParseAddr(addr); err != nil {
				return err
			}
		}
		b.HostPort = hostPort
	}
	if m.host.PortBindings == nil {
		m.host.PortBindings, m.config.ExposedPorts = network.PortMap{}, network.PortSet{}
	}
	m.host.PortBindings[port] = append(m.host.PortBindings[port], b)
	m.config.ExposedPorts[port] = struct{}{}
	return nil
}

func generalOptions() map[string]option {
	return map[string]option{
		"--volume": value(func(m made, v string) error {
			if _, ok := parseVolume(v); !ok {
				return fmt.Errorf("expected SOURCE:TARGET[:OPTIONS]")
			}
			m.host.Binds = append(m.host.Binds, v)
			return nil
		}),
		"--tmpfs": value(func(m made, v string) error {
			target, opts, _ := strings.Cut(v, ":")
			m.host.Tmpfs[target] = opts
			return nil
		}),
		"--env": value(func(m made, v string) error {
			if name, _, ok := strings.Cut(v, "="); !ok || !reEnvName.MatchString(name) {
				return fmt.Errorf("expected NAME=VALUE")
			}
			m.config.Env = append(m.config.Env, v)
			return nil
		}),
		"--entrypoint": value(func(m made, v string) error {
			if m.config.Entrypoint = []string{v}; v == "" {
				m.config.Entrypoint = []string{"sleep"}
				m.config.Cmd = []string{"infinity"}
			}
			return nil
		}),
		"--label": value(func(m made, v string) error {
			name, val, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "hermes-") {
				return fmt.Errorf("labels that begin with hermes- are this program's")
			}
			m.config.Labels[name] = val
			return nil
		}),
		"--init":          flag(func(m made) { m.host.Init = new(true) }),
		"--oom-score-adj": value(func(m made, v string) (err error) { m.host.OomScoreAdj, err = strconv.Atoi(v); return err }),
		"--log-driver":    text(func(m made) *string { return &m.host.LogConfig.Type }),
		"--log-opt":       value(func(m made, v string) error { return setPair(&m.host.LogConfig.Config, v) }),
		"--cgroupns":      value(func(m made, v string) error { m.host.CgroupnsMode = container.CgroupnsMode(v); return nil }),
		"--cgroup-parent": text(func(m made) *string { return &m.host.CgroupParent }),
	}
}

func setPair(m *map[string]string, v string) error {
	name, val, ok := strings.Cut(v, "=")
	if !ok {
		return fmt.Errorf("expected NAME=VALUE")
	}
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[name] = val
	return nil
}
