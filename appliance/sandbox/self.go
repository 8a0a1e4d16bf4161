// SPDX-License-Identifier: MIT

package sandbox

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// self is the container of the same engine that this process runs in. Its paths are not the
// engine's: a bind mount of one would show another directory, or an empty one that the
// engine makes (hermes-agent#40368).
type self struct {
	id     string
	mounts []container.MountPoint
}

// findSelf asks the engine whether it runs this process. A container of another engine, or
// none at all, is no self: then the paths are ours to share or beyond what can be known.
func (e *Engine) findSelf(ctx context.Context) (*self, error) {
	id := e.o.Self
	if id == "" {
		if id = selfID(); id == "" {
			return nil, nil //nolint:nilnil // the usual case: no container
		}
	}
	r, err := e.api.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return nil, nil //nolint:nilnil // another engine's
	}
	if err != nil {
		return nil, e.failed("find out whether this process runs in a container", err)
	}
	return &self{id: r.Container.ID, mounts: r.Container.Mounts}, nil
}

// selfID reads the id of the container around this process from what the engine mounts into
// each of them; "" = none.
func selfID() string {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return idInMounts(string(data))
}

// reMounted finds the id in the source of the mount of /etc/hostname: docker keeps it in
// containers/ID/hostname, podman in overlay-containers/ID/userdata/hostname.
var reMounted = regexp.MustCompile(`(?m)containers/([0-9a-f]{64})/(?:userdata/)?hostname /etc/hostname `)

func idInMounts(mountinfo string) string {
	if m := reMounted.FindStringSubmatch(mountinfo); m != nil {
		return m[1]
	}
	return ""
}

// onHost returns a path of this process as the engine knows it. what names the path's role
// in the error, an [*EngineError] of [ErrConfig].
func (e *Engine) onHost(what, p string) (string, error) {
	if e.self == nil {
		return p, nil
	}
	best := container.MountPoint{}
	clean := path.Clean(filepath.ToSlash(p))
	for _, m := range e.self.mounts {
		if len(m.Destination) > len(best.Destination) && below(clean, m.Destination) && (m.Type == mount.TypeBind || m.Type == mount.TypeVolume) {
			best = m
		}
	}
	if best.Destination == "" {
		return "", &EngineError{
			Kind: ErrConfig, Op: "mount " + what,
			Msg: fmt.Sprintf("this program runs in container %.12s, and the engine outside cannot see its %s", e.self.id, clean),
			Fix: fmt.Sprintf("start that container with a volume or bind mount that holds %s", clean),
		}
	}
	return path.Join(best.Source, strings.TrimPrefix(clean, best.Destination)), nil
}

// below reports whether a path is dir or in it.
func below(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}
