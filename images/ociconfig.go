// SPDX-License-Identifier: MIT

package images

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// ociConfig is the part of an image's config that is kept: all that OCI knows, how the image is
// asked whether it is well, and nothing of the builder's (container, container_config, docker_version, host name).
type ociConfig struct {
	Created      time.Time    `json:"created"`
	Architecture string       `json:"architecture"`
	Variant      string       `json:"variant,omitempty"`
	OS           string       `json:"os"`
	Config       ociRun       `json:"config"`
	RootFS       ociRootFS    `json:"rootfs"`
	History      []ociHistory `json:"history,omitempty"`
}

type ociRun struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	Volumes      map[string]struct{} `json:"Volumes,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
	Labels       map[string]string   `json:"Labels,omitempty"`
	StopSignal   string              `json:"StopSignal,omitempty"`
	Healthcheck  *healthcheck        `json:"Healthcheck,omitempty"`
}

// healthcheck is Docker's, which OCI does not know and passes on.
type healthcheck struct {
	Test        []string      `json:"Test,omitempty"`
	Interval    time.Duration `json:"Interval,omitempty"`
	Timeout     time.Duration `json:"Timeout,omitempty"`
	StartPeriod time.Duration `json:"StartPeriod,omitempty"`
	Retries     int           `json:"Retries,omitempty"`
}

type ociRootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

type ociHistory struct {
	Created    time.Time `json:"created"`
	CreatedBy  string    `json:"created_by,omitempty"`
	EmptyLayer bool      `json:"empty_layer,omitempty"`
}

func parseOCIConfig(data []byte) (c ociConfig, err error) {
	err = json.Unmarshal(data, &c)
	if err == nil && (c.OS == "" || c.Architecture == "" || c.RootFS.Type != "layers") {
		err = errors.New("no image config")
	}
	return c, err
}

// settle takes out what differs from one build, or builder, to the next.
func (c *ociConfig) settle(created time.Time) {
	c.Created = created.UTC()
	for i := range c.History {
		h := &c.History[i]
		h.Created = created.UTC()
		// A RUN begins with the values of all arguments that were known to it: among them
		// where this machine fetches from. They stand in the Dockerfile.
		if _, rest, ok := strings.Cut(h.CreatedBy, "/bin/bash -euo pipefail -c "); ok {
			h.CreatedBy = strings.TrimPrefix(strings.TrimSpace(rest), "#(nop) ")
			if !h.EmptyLayer && !strings.HasPrefix(h.CreatedBy, "COPY") {
				h.CreatedBy = "RUN " + h.CreatedBy
			}
		}
		h.CreatedBy = strings.TrimSpace(h.CreatedBy)
	}
}

type platformDoc struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

type descriptorDoc struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platformDoc      `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	refName      = "org.opencontainers.image.ref.name"
)

// writeLayout writes config, manifest and index beside the layers that are there already, and
// notes the manifest's digest in out. Another image of the same platform leaves the index;
// its blobs stay until the directory is thrown away.
func writeLayout(dir, name string, p platformDoc, out *Exported) error {
	m := struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Config        descriptorDoc   `json:"config"`
		Layers        []descriptorDoc `json:"layers"`
	}{SchemaVersion: 2, MediaType: typeManifest, Config: descriptorDoc{MediaType: typeConfig, Digest: out.ID, Size: int64(len(out.config))}}
	for _, l := range out.Layers {
		m.Layers = append(m.Layers, descriptorDoc{MediaType: typeLayer, Digest: l.Digest, Size: l.Stored})
	}
	manifest, err := json.Marshal(m)
	if err != nil {
		return err
	}
	out.Digest = sumOf(manifest)
	var index struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		Manifests     []descriptorDoc `json:"manifests"`
	}
	path := filepath.Join(dir, "index.json")
	if old, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(old, &index); err != nil {
			return errors.Join(errors.New(path+" is no index of an OCI layout"), err)
		}
	}
	kept := []descriptorDoc{{
		MediaType: typeManifest, Digest: out.Digest, Size: int64(len(manifest)), Platform: &p, Annotations: map[string]string{refName: name},
	}}
	for _, d := range index.Manifests {
		if d.Platform != nil && *d.Platform != p {
			kept = append(kept, d)
		}
	}
	index.SchemaVersion, index.MediaType, index.Manifests = 2, typeIndex, kept
	data, err := json.Marshal(index)
	if err != nil {
		return err
	}
	w := atomicfile.Writer{}
	for file, content := range map[string][]byte{
		"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`),
		filepath.Join("blobs", "sha256", strings.TrimPrefix(out.ID, "sha256:")):     out.config,
		filepath.Join("blobs", "sha256", strings.TrimPrefix(out.Digest, "sha256:")): manifest,
	} {
		if err := w.Write(filepath.Join(dir, file), content, atomicfile.Options{Mode: 0o644}); err != nil {
			return err
		}
	}
	return w.Write(path, data, atomicfile.Options{Mode: 0o644})
}
