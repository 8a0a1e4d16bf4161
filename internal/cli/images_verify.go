// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type imagesVerifyOptions struct {
	registryOptions
	ref, key string
	blobs    bool
	json     bool
}

func newImagesVerify(st *state) *cobra.Command {
	var o imagesVerifyOptions
	cmd := &cobra.Command{
		Use: "verify REF --key FILE [FLAGS]", Short: "Verify a published image",
		Long: "Fetches the index, its images and all that belongs to them, recomputes every digest, and checks the signature, the\n" +
			"labels, the provenance and the SBOMs. It refuses what is unsigned, signed by another key or for another repository,\n" +
			"tampered with, without an SBOM or provenance, or missing an architecture.",
		Example:               "  hermes-appliance images verify nousresearch/hermes-sandbox:desktop --key cosign.pub",
		DisableFlagsInUseLine: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.ref = args[0]
			return o.run(cmd.Context(), st.env)
		},
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "the public key `FILE`, cosign.pub, or env://NAME")
	f.BoolVar(&o.blobs, "blobs", false, "fetch and recompute every layer too, as a pull does")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *imagesVerifyOptions) run(ctx context.Context, env Env) error {
	ref, err := remoteRef(o.ref)
	if err != nil {
		return err
	}
	key, err := publicKey(env, o.key)
	if err != nil {
		return err
	}
	r, err := o.open(env)
	if err != nil {
		return err
	}
	v, err := r.Verify(ctx, images.VerifyOptions{Ref: ref, Key: key, Platforms: o.wanted(), Blobs: o.blobs})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images verify", Result: v})
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", v.Name)
	writeVerified(&b, v)
	_, err = fmt.Fprint(env.Stdout, b.String())
	return err
}

func writeVerified(b *strings.Builder, v *images.Verified) {
	fmt.Fprintf(b, "  version     %s of %s\n", v.Version, v.Revision)
	for _, p := range slices.Sorted(maps.Keys(v.Images)) {
		fmt.Fprintf(b, "  %-11s %s\n              SBOM %s\n", p, v.Images[p], v.SBOMs[p])
	}
	fmt.Fprintf(b, "  provenance  %s\n              by %s\n", v.Provenance, v.Builder)
}

type imagesRollbackOptions struct {
	registryOptions
	ref, key string
	steps    int
	json     bool
}

func newImagesRollback(st *state) *cobra.Command {
	o := imagesRollbackOptions{}
	cmd := &cobra.Command{
		Use: "rollback REPOSITORY:desktop --key FILE [FLAGS]", Short: "Point the tag desktop at an earlier release",
		Long: "Verifies the release before the one that the tag points at, and moves the tag there. What was gone back from stays\n" +
			"under its own tag and is not published again. Called again it goes back further.",
		Example:               "  hermes-appliance images rollback localhost:5000/me/sandbox:desktop --key cosign.pub",
		DisableFlagsInUseLine: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.ref = args[0]
			return o.run(cmd.Context(), st.env)
		},
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "the public key `FILE`, cosign.pub, or env://NAME")
	f.IntVar(&o.steps, "steps", 1, "how many releases to go back")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func (o *imagesRollbackOptions) run(ctx context.Context, env Env) error {
	ref, err := remoteRef(o.ref)
	if err != nil {
		return err
	}
	if o.steps < 1 {
		return usagef("--steps %d: expected 1 or more", o.steps)
	}
	run := releaseRun(env)
	if err := run.GuardBack(ref.Repository()); err != nil {
		return err
	}
	key, err := publicKey(env, o.key)
	if err != nil {
		return err
	}
	r, err := o.open(env)
	if err != nil {
		return err
	}
	m, err := r.Rollback(ctx, images.RollbackOptions{Tag: ref, Steps: o.steps, Key: key, Platforms: o.wanted(), Run: run})
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "images rollback", Result: m})
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\n  from %s\n  to   %s\n", ref, m.From, m.To)
	return err
}

type imagesSBOMOptions struct {
	registryOptions
	what, key, layout, name, of string
}

func newImagesSBOM(st *state) *cobra.Command {
	var o imagesSBOMOptions
	cmd := &cobra.Command{
		Use: "sbom REF --key FILE | sbom DIGEST --layout DIR", Short: "Print the SBOM of an image as SPDX JSON",
		Long: "With a reference, verifies what is published and prints the SBOM that was published with it. With --layout, reads the\n" +
			"image's layers and prints what publishing would attach: Debian's packages, Python distributions, npm packages and\n" +
			"the modules of Go programs.",
		Example:               "  hermes-appliance images sbom nousresearch/hermes-sandbox:desktop --key cosign.pub --of linux/arm64",
		DisableFlagsInUseLine: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st.started = true
			o.what = args[0]
			return o.run(cmd.Context(), st.env)
		},
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage, exitcode.Interrupted)
	o.register(cmd)
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "the public key `FILE`, cosign.pub, or env://NAME")
	f.StringVar(&o.of, "of", "linux/amd64", "the `PLATFORM` whose SBOM is printed")
	f.StringVar(&o.layout, "layout", "", "the OCI layout `DIR` that holds the image")
	f.StringVar(&o.name, "name", images.DefaultRepository, "`NAME` of the image in the SBOM of a layout")
	return cmd
}

func (o *imagesSBOMOptions) run(ctx context.Context, env Env) (err error) {
	var data []byte
	if o.layout == "" {
		data, err = o.published(ctx, env)
	} else {
		data, err = o.computed(ctx)
	}
	if err != nil {
		return err
	}
	_, err = env.Stdout.Write(data)
	return err
}

func (o *imagesSBOMOptions) published(ctx context.Context, env Env) ([]byte, error) {
	ref, err := remoteRef(o.what)
	if err != nil {
		return nil, err
	}
	key, err := publicKey(env, o.key)
	if err != nil {
		return nil, err
	}
	r, err := o.open(env)
	if err != nil {
		return nil, err
	}
	return r.SBOM(ctx, images.VerifyOptions{Ref: ref, Key: key, Platforms: o.wanted()}, images.Platform(o.of))
}

func (o *imagesSBOMOptions) computed(ctx context.Context) (data []byte, err error) {
	d, err := images.ParseDigest(o.what)
	if err != nil {
		return nil, usagef("%w", err)
	}
	repo, err := images.ParseRepository(o.name)
	if err != nil {
		return nil, usagef("--name: %w", err)
	}
	l, err := images.OpenLayout(o.layout)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	img, err := l.Image(ctx, d)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, img.Close()) }()
	return img.SBOM(ctx, repo.Name, toolName())
}

type imagesKeygenOptions struct{ prefix string }

func newImagesKeygen(st *state) *cobra.Command {
	var o imagesKeygenOptions
	cmd := &cobra.Command{
		Use: "keygen [FLAGS]", Short: "Make a key pair to sign images with",
		Long: "Writes a private key, encrypted with the password in " + envKeyPassword + ", and its public key, in the files that\n" +
			"\"cosign generate-key-pair\" writes. A file that exists is never replaced.",
		Example:               "  COSIGN_PASSWORD=… hermes-appliance images keygen",
		DisableFlagsInUseLine: true, Args: cobra.NoArgs,
		RunE: handler(st, func(_ context.Context, env Env) error { return o.run(env) }),
	}
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	cmd.Flags().StringVar(&o.prefix, "output-key-prefix", "cosign", "`PREFIX` of the files .key and .pub")
	return cmd
}

func (o *imagesKeygenOptions) run(env Env) error {
	password := env.Getenv(envKeyPassword)
	if password == "" {
		return usagef("%s is not set: the password that encrypts the private key", envKeyPassword)
	}
	names := []string{o.prefix + ".key", o.prefix + ".pub"}
	for _, n := range names {
		if _, err := os.Lstat(n); err == nil {
			return fmt.Errorf("%s exists and is not replaced; choose another --output-key-prefix", n)
		}
	}
	private, public, err := images.GenerateKey([]byte(password))
	if err != nil {
		return err
	}
	if err := (atomicfile.Writer{}).Write(names[0], private, atomicfile.Options{Mode: 0o600}); err != nil {
		return err
	}
	if err := (atomicfile.Writer{}).Write(names[1], public, atomicfile.Options{Mode: 0o644}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "%s\n%s\n", names[0], names[1])
	return err
}
