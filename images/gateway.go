// SPDX-License-Identifier: MIT

package images

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// GatewayDockerfilePath is what the gateway's image is built from.
const GatewayDockerfilePath = "Dockerfile"

// gatewayRoot is the directory of the context whose content the gateway's image takes as it is.
const gatewayRoot = "dist/image/"

// recipe returns what a build needs beside its base: the name of the Dockerfile, the context,
// and those of the lock's arguments that the Dockerfile has.
func (o BuildOptions) recipe(l Lock) (dockerfile string, data []byte, args map[string]string, err error) {
	args = l.Args()
	if o.Program == "" {
		data, err = buildContext(o.Dir, DockerfilePath, l.Created())
		return DockerfilePath, data, args, err
	}
	for name := range args {
		switch name {
		case "BASE", "SOURCE_DATE_EPOCH", "APT_SNAPSHOT", "CREATED":
		default:
			delete(args, name)
		}
	}
	program, err := os.ReadFile(o.Program)
	if err != nil {
		return "", nil, nil, err
	}
	if err := standsAlone(o.Program); err != nil {
		return "", nil, nil, err
	}
	provenance, err := json.MarshalIndent(struct {
		Schema   int     `json:"schema"`
		Kind     string  `json:"deployment_kind"`
		Manager  string  `json:"manager"`
		Version  string  `json:"version"`
		Revision *string `json:"revision"`
	}{1, "image", "docker", or(o.Release, "dev"), pointer(o.Revision)}, "", "  ")
	if err != nil {
		return "", nil, nil, err
	}
	data, err = buildContext(o.Dir, GatewayDockerfilePath, l.Created(),
		extra{gatewayRoot + "opt/hermes/bin/hermes-appliance", 0o755, program},
		extra{gatewayRoot + "etc/hermes/image-provenance.json", 0o444, append(provenance, '\n')})
	return GatewayDockerfilePath, data, args, err
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func pointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// standsAlone refuses a program that needs an interpreter which the image may not have.
func standsAlone(path string) (err error) {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("%s: expected a program for Linux: %w", path, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s: it is linked dynamically; build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}
