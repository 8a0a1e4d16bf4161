// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type imagesPublishOptions struct {
	registryOptions
	digests    []string
	layouts    []string
	proofs     []string
	repository string
	tags       []string
	key        string
	lock       string
	replacing  string
	json       bool
}

func newImagesPublish(st *state) *cobra.Command {
	var o imagesPublishOptions
	cmd := &cobra.Command{
		Use: "publish DIGEST... --layout DIR --proof FILE --key FILE [FLAGS]", Short: "Publish images that were proven",
		Long: "Pushes the images of these digests, one for each platform, as one index, with their signature, SBOMs, smoke reports\n" +
			"and provenance; reads all of it back and verifies it; then moves the tags. Nothing is built and no byte changes: the\n" +
			"digests in the registry are those given here. Each needs a smoke report that passed.\n\n" +
			"--tag desktop moves for a stable release only, never backwards, and brings VERSION-desktop along, which never moves.\n" +
			"Without --tag everything but the tags is done. What broke off is taken up by the same command again.\n\n" +
			"The credentials come from " + envRegistryUser + " and " + envRegistryToken + ", else from Docker's config; the key's password from\n" +
			envKeyPassword + ". The project's own repositories are written by release runs of its workflows only.",
		Example:               "  hermes-appliance images publish sha256:1a… sha256:2b… --layout amd64/ --layout arm64/ --proof amd64.json --proof arm64.json --key cosign.key --repository localhost:5000/me/sandbox --tag desktop",
		DisableFlagsInUseLine: true, Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.digests = args
			return o.run(cmd.Context(), st.env)
		},
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	o.register(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&o.layouts, "layout", nil, "an OCI layout `DIR` that holds an image")
	f.StringArrayVar(&o.proofs, "proof", nil, "a smoke report `FILE`")
	f.StringVar(&o.repository, "repository", images.DefaultRepository, "`NAME` to publish under")
	f.StringArrayVar(&o.tags, "tag", nil, "a `TAG` to move: desktop, or VERSION-desktop")
	f.StringVar(&o.key, "key", "", "the private key `FILE` to sign with, cosign.key, or env://NAME")
	f.StringVar(&o.lock, "lock", "", "the lock `FILE` that the images were built from, for the provenance")
	f.StringVar(&o.replacing, "replacing", "", "a `DIGEST` that the tag may be taken from though nothing tells its version")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *imagesPublishOptions) run(ctx context.Context, env Env) (err error) {
	po := images.PublishOptions{Tags: o.tags, Platforms: o.wanted(), Run: releaseRun(env), Tool: toolName(), Origin: origin(env)}
	if po.Repository, err = images.ParseRepository(o.repository); err != nil {
		return usagef("%w", err)
	}
	// The guard speaks before the key is asked for, and again in Publish.
	if err := po.Run.Guard(po.Repository); err != nil {
		return err
	}
	if o.replacing != "" {
		if po.Replacing, err = images.ParseDigest(o.replacing); err != nil {
			return usagef("--replacing: %w", err)
		}
	}
	if err := o.read(env, &po); err != nil {
		return err
	}
	done, err := o.images(ctx, &po)
	defer func() { err = errors.Join(err, done()) }()
	if err != nil {
		return err
	}
	r, err := o.open(env)
	if err != nil {
		return err
	}
	p, err := r.Publish(ctx, po)
	if err != nil {
		return err
	}
	return o.print(env, p)
}

// read reads the key, the reports and the lock.
func (o *imagesPublishOptions) read(env Env, po *images.PublishOptions) error {
	if o.key == "" {
		return usagef("--key is missing: the private key to sign with; \"images keygen\" makes one")
	}
	data, err := secretFile(env, "--key", o.key)
	if err != nil {
		return err
	}
	if po.Signer, err = images.ParseSigner(data, []byte(env.Getenv(envKeyPassword))); err != nil {
		return err
	}
	for _, path := range o.proofs {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p, err := images.ParseProof(path, data)
		if err != nil {
			return err
		}
		po.Proofs = append(po.Proofs, p)
	}
	if o.lock == "" {
		return nil
	}
	if data, err = os.ReadFile(o.lock); err != nil {
		return err
	}
	po.Origin.Materials, po.Origin.Unresolved, err = images.LockMaterials(o.lock, data)
	return err
}

// images finds each digest in a layout. done is to be called in any case.
func (o *imagesPublishOptions) images(ctx context.Context, po *images.PublishOptions) (done func() error, err error) {
	var closers []func() error
	done = func() (err error) {
		for i := range closers {
			err = errors.Join(err, closers[len(closers)-1-i]())
		}
		return err
	}
	where := map[images.Digest]*images.Layout{}
	for _, dir := range o.layouts {
		l, err := images.OpenLayout(dir)
		if err != nil {
			return done, err
		}
		closers = append(closers, l.Close)
		for _, d := range l.Digests() {
			where[d] = l
		}
	}
	for _, s := range o.digests {
		d, err := images.ParseDigest(s)
		if err != nil {
			return done, usagef("%w", err)
		}
		if where[d] == nil {
			return done, fmt.Errorf("%s is in none of the layouts %v; give its directory with --layout", d, o.layouts)
		}
		img, err := where[d].Image(ctx, d)
		if err != nil {
			return done, err
		}
		closers = append(closers, img.Close)
		po.Images = append(po.Images, img)
	}
	return done, nil
}

// origin says who builds, as GitHub's runner tells it.
func origin(env Env) images.Origin {
	if env.Getenv("GITHUB_ACTIONS") != "true" {
		return images.Origin{Builder: "https://github.com/hermes-appliance/hermes-appliance/blob/main/docs/images.md#by-hand"}
	}
	server := env.Getenv("GITHUB_SERVER_URL") + "/"
	return images.Origin{
		Builder:    server + env.Getenv("GITHUB_WORKFLOW_REF"),
		Invocation: server + env.Getenv("GITHUB_REPOSITORY") + "/actions/runs/" + env.Getenv("GITHUB_RUN_ID"),
	}
}

func (o *imagesPublishOptions) print(env Env, p *images.Published) error {
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images publish", Result: p})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", p.Name)
	writeVerified(&b, &p.Verified)
	for _, t := range p.Tags {
		switch {
		case !t.Moved:
			fmt.Fprintf(&b, "  tag         %s was there already\n", t.Tag)
		case t.From == "":
			fmt.Fprintf(&b, "  tag         %s is new\n", t.Tag)
		default:
			fmt.Fprintf(&b, "  tag         %s moved from %s\n", t.Tag, t.From)
		}
	}
	_, err := fmt.Fprint(env.Stdout, b.String())
	return err
}
