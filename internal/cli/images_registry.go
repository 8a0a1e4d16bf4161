// SPDX-License-Identifier: MIT

package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/buildinfo"
)

// The names of the environment that publishing reads. A token is never an argument: those
// are seen by other users of the machine.
const (
	envRegistryUser  = "HERMES_REGISTRY_USER"
	envRegistryToken = "HERMES_REGISTRY_TOKEN"
	envKeyPassword   = "COSIGN_PASSWORD"
	envPublish       = "HERMES_IMAGES_PUBLISH"
)

// registryOptions choose how a registry is talked to and what an index must have.
type registryOptions struct {
	platforms []string
	verbose   bool
}

func (o *registryOptions) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&o.platforms, "platform", nil, "a `PLATFORM` that the index must have (default linux/amd64 and linux/arm64)")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say on standard error what happens")
}

// open makes a client with the credentials of the environment, else those of Docker.
func (o *registryOptions) open(env Env) (*images.Registry, error) {
	dir := env.Getenv("DOCKER_CONFIG")
	if dir == "" && env.Getenv("HOME") != "" {
		dir = filepath.Join(env.Getenv("HOME"), ".docker")
	}
	ro := images.RegistryOptions{DockerDir: dir, Auth: images.Auth{Username: env.Getenv(envRegistryUser), Password: env.Getenv(envRegistryToken)}}
	if o.verbose {
		ro.Log = slog.New(slog.NewTextHandler(env.Stderr, nil))
	}
	return images.NewRegistry(ro)
}

// wanted returns the platforms asked for; nil = the default.
func (o *registryOptions) wanted() (out []images.Platform) {
	for _, p := range o.platforms {
		out = append(out, images.Platform(p))
	}
	return out
}

// releaseRun reads what started this process.
func releaseRun(env Env) images.Run {
	return images.Run{
		CI:      env.Getenv("GITHUB_ACTIONS") == "true",
		Event:   env.Getenv("GITHUB_EVENT_NAME"),
		Tag:     env.Getenv("GITHUB_REF_TYPE") == "tag",
		Publish: env.Getenv(envPublish) == "true",
		Named:   env.Getenv(envPublish),
	}
}

// secretFile reads a file, or with env://NAME a variable, as cosign has it.
func secretFile(env Env, what, from string) ([]byte, error) {
	name, ok := strings.CutPrefix(from, "env://")
	if !ok {
		return os.ReadFile(from)
	}
	v := env.Getenv(name)
	if v == "" {
		return nil, fmt.Errorf("%s: %s is not set", what, name)
	}
	return []byte(v), nil
}

// publicKey reads the key to verify with.
func publicKey(env Env, from string) (*images.Key, error) {
	if from == "" {
		return nil, usagef("--key is missing: the public key of who signs, cosign.pub")
	}
	data, err := secretFile(env, "--key", from)
	if err != nil {
		return nil, err
	}
	k, err := images.ParseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return k, nil
}

// remoteRef reads a reference that must have a tag or a digest.
func remoteRef(s string) (images.Ref, error) {
	r, err := images.ParseRef(s)
	if err == nil && r.Tag == "" && r.Digest == "" {
		err = fmt.Errorf("image %q: expected a tag or a digest, e.g. %s:%s", s, images.DefaultRepository, images.RollingTag)
	}
	if err != nil {
		return r, usagef("%w", err)
	}
	return r, nil
}

// toolName names this program for the documents that it writes.
func toolName() string { return Name + "-" + buildinfo.Read().Version }
