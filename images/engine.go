// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
)

// ErrNoEngine says that no container engine answers.
var ErrNoEngine = errors.New("no container engine answers")

// ErrNoImage says that an engine does not have an image.
var ErrNoImage = errors.New("the engine has no such image")

// Engine is a container engine, Docker's or podman's, behind its socket. It is safe for
// concurrent use.
type Engine struct {
	Address string
	Version string // "Docker 20.10.24"
	cli     *client.Client
}

// EngineAddress returns where the engine is: wanted if that is an address; else DOCKER_HOST;
// else the first socket there is, Docker's before podman's. wanted may also be "docker" or
// "podman", for the sockets of that one alone; "" means either.
func EngineAddress(wanted string, getenv func(string) string) (string, error) {
	if strings.Contains(wanted, "://") {
		return wanted, nil
	}
	docker := []string{"/var/run/docker.sock"}
	podman := []string{"/run/podman/podman.sock"}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		docker = append(docker, filepath.Join(dir, "docker.sock"))
		podman = append([]string{filepath.Join(dir, "podman", "podman.sock")}, podman...)
	}
	var sockets []string
	switch wanted {
	case "":
		sockets = append(docker, podman...)
	case "docker":
		sockets = docker
	case "podman":
		sockets = podman
	default:
		return "", fmt.Errorf("engine %q: expected docker, podman, or an address like unix:///var/run/docker.sock", wanted)
	}
	if host := getenv("DOCKER_HOST"); host != "" && wanted != "podman" {
		return host, nil
	}
	for _, s := range sockets {
		if info, err := os.Stat(s); err == nil && info.Mode()&os.ModeSocket != 0 {
			return "unix://" + s, nil
		}
	}
	return "", fmt.Errorf("%w: no socket at %s, and DOCKER_HOST is not set", ErrNoEngine, strings.Join(sockets, ", "))
}

// OpenEngine connects to the engine at address and asks it what it is. The caller closes it.
func OpenEngine(ctx context.Context, address string) (*Engine, error) {
	cli, err := client.New(client.WithHost(address), client.WithUserAgent("hermes-appliance"))
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", address, err)
	}
	e := &Engine{Address: address, cli: cli}
	v, err := cli.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w at %s: %w", ErrNoEngine, address, err), cli.Close())
	}
	name := "Docker"
	for _, c := range v.Components {
		if strings.HasPrefix(c.Name, "Podman") {
			name = "podman"
		}
	}
	e.Version = name + " " + v.Version
	return e, nil
}

// Close lets go of the connections.
func (e *Engine) Close() error { return e.cli.Close() }

// Stored is an image in an engine.
type Stored struct {
	ID      string // of the config, or of the manifest where the engine has a content store
	Tags    []string
	Size    int64 // unpacked
	Arch    string
	Labels  map[string]string
	DiffIDs []string
}

// Image returns what the engine knows of an image; [ErrNoImage] if it has none by that name.
func (e *Engine) Image(ctx context.Context, name string) (Stored, error) {
	r, err := e.cli.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return Stored{}, fmt.Errorf("%s: %w", name, ErrNoImage)
	}
	if err != nil {
		return Stored{}, err
	}
	s := Stored{ID: r.ID, Tags: r.RepoTags, Size: r.Size, Arch: r.Architecture, DiffIDs: r.RootFS.Layers}
	if r.Config != nil {
		s.Labels = r.Config.Labels
	}
	return s, nil
}

// Pull fetches an image, saying how it goes.
func (e *Engine) Pull(ctx context.Context, ref string, progress io.Writer) (err error) {
	r, err := e.cli.ImagePull(ctx, ref, client.ImagePullOptions{})
	if err != nil {
		return fmt.Errorf("pull %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return messages(r, func(m jsonstream.Message) error {
		if m.Progress != nil && m.Progress.Total > 0 {
			return nil
		}
		return say(progress, m.ID, m.Status)
	})
}

// Import makes an image of one layer from a tar of a root filesystem.
func (e *Engine) Import(ctx context.Context, rootfs io.Reader, ref string) (err error) {
	r, err := e.cli.ImageImport(ctx, client.ImageImportSource{Source: rootfs, SourceName: "-"}, ref, client.ImageImportOptions{})
	if err != nil {
		return fmt.Errorf("import %s: %w", ref, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return messages(r, func(jsonstream.Message) error { return nil })
}

// Tag gives an image one more name.
func (e *Engine) Tag(ctx context.Context, image, name string) error {
	_, err := e.cli.ImageTag(ctx, client.ImageTagOptions{Source: image, Target: name})
	return err
}

// Untag takes a name, or an image by its ID, away; layers that nothing else uses go with the
// last one.
func (e *Engine) Untag(ctx context.Context, name string) error {
	_, err := e.cli.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// save streams an image as a Docker archive.
func (e *Engine) save(ctx context.Context, image string) (io.ReadCloser, error) {
	return e.cli.ImageSave(ctx, []string{image})
}

// load reads a Docker archive into the engine.
func (e *Engine) load(ctx context.Context, archive io.Reader) (err error) {
	r, err := e.cli.ImageLoad(ctx, archive, client.ImageLoadWithQuiet(true))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	return messages(r, func(jsonstream.Message) error { return nil })
}

// buildRequest is one build by the engine.
type buildRequest struct {
	dockerfile string
	context    io.Reader
	args       map[string]string
	tag        string
	noCache    bool
	network    string // "" = the engine's default
	kit        bool   // by BuildKit instead of the classic builder
}

// build builds with the engine's own builder and returns the ID of the image.
func (e *Engine) build(ctx context.Context, r buildRequest, progress io.Writer) (id string, err error) {
	args := map[string]*string{}
	for k, v := range r.args {
		args[k] = &v
	}
	version := build.BuilderV1
	if r.kit {
		version = build.BuilderBuildKit // takes the context from the request, and needs no session for it
	}
	var tr trace
	res, err := e.cli.ImageBuild(ctx, r.context, client.ImageBuildOptions{
		Dockerfile: r.dockerfile, BuildArgs: args, Tags: []string{r.tag}, NoCache: r.noCache, NetworkMode: r.network,
		Remove: true, ForceRemove: true, Version: version,
	})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	err = messages(res.Body, func(m jsonstream.Message) error {
		if m.ID == traceID && m.Aux != nil {
			m.Stream = tr.lines(*m.Aux)
		} else if m.Aux != nil {
			var aux struct{ ID string }
			if err := json.Unmarshal(*m.Aux, &aux); err == nil && aux.ID != "" {
				id = aux.ID
			}
		}
		_, err := io.WriteString(progress, m.Stream)
		return err
	})
	if err == nil && id == "" {
		err = errors.New("the engine named no image at the end of the build")
	}
	return id, err
}

// messages reads a stream of JSON messages to its end; one that is an error ends it.
func messages(r io.Reader, each func(jsonstream.Message) error) error {
	for dec := json.NewDecoder(r); ; {
		var m jsonstream.Message
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("the engine's answer: %w", err)
		}
		if m.Error != nil {
			return errors.New(strings.TrimSpace(m.Error.Message))
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

// say writes one line of progress.
func say(w io.Writer, words ...string) error {
	_, err := fmt.Fprintln(w, strings.TrimSpace(strings.Join(words, " ")))
	return err
}
