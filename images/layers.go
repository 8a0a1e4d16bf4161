// SPDX-License-Identifier: MIT

package images

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
)

// goDigest is a digest as the image library takes it.
func goDigest(s string) digest.Digest { return digest.Digest(s) }

// layerFunc sees one entry of a layer: its number, its header, and the content until it
// returns.
type layerFunc func(layer int, h *tar.Header, content io.Reader) error

// Check reads every layer and recomputes its size, its digest and, of the uncompressed
// bytes, its diff ID in the config.
func (i *Image) Check(ctx context.Context) error { return i.walk(ctx, nil) }

// walk checks every layer, as [Image.Check] does, and hands its entries to see, which may
// be nil. When it returns nil all that see was given is verified.
func (i *Image) walk(ctx context.Context, see layerFunc) error {
	for n, d := range i.manifest.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		blob, err := i.open(ctx, d)
		if err != nil {
			return err
		}
		err = checkLayer(n, d, i.diffIDs[n], blob, see)
		if err = errors.Join(err, blob.Close()); err != nil {
			return fmt.Errorf("OCI layout %s: %s: %w", i.where, i.Digest, err)
		}
	}
	return nil
}

// checkLayer reads one layer, whose bytes come from a layout or a registry. Bytes that are
// not what the digests say are [ErrCorrupt]; a source that broke off is not.
func checkLayer(n int, d v1.Descriptor, diffID Digest, blob io.Reader, see layerFunc) error {
	packed, plain := newCounter(), newCounter()
	in := bufio.NewReaderSize(io.TeeReader(io.LimitReader(blob, d.Size+1), packed), 64<<10)
	unpackErr := unpack(n, string(d.MediaType), in, plain, see)
	if errors.Is(unpackErr, errMediaType) {
		return fmt.Errorf("layer %d, %s: %w", n, d.Digest, unpackErr)
	}
	if _, err := io.Copy(io.Discard, in); err != nil {
		return fmt.Errorf("layer %d, %s: %w", n, d.Digest, err)
	}
	if got := packed.digest(); got != Digest(d.Digest.String()) || packed.n != d.Size {
		return fmt.Errorf("layer %d, %s: %w: its %d bytes are %s", n, d.Digest, ErrCorrupt, packed.n, got)
	}
	if unpackErr != nil {
		return fmt.Errorf("layer %d, %s: %w: %w", n, d.Digest, ErrCorrupt, unpackErr)
	}
	if got := plain.digest(); got != diffID {
		return fmt.Errorf("layer %d, %s: %w: unpacked it is %s, and the config says %s", n, d.Digest, ErrCorrupt, got, diffID)
	}
	return nil
}

var errMediaType = errors.New("expected a tar, plain or packed with gzip")

// unpack reads a layer to its end.
func unpack(n int, mediaType string, in io.Reader, plain io.Writer, see layerFunc) error {
	switch {
	case strings.HasSuffix(mediaType, "+gzip"), strings.HasSuffix(mediaType, ".gzip"):
		zr, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = zr
	case strings.HasSuffix(mediaType, ".tar"):
	default:
		return fmt.Errorf("%w, not %q", errMediaType, mediaType)
	}
	tee := io.TeeReader(in, plain)
	if see != nil {
		if err := entries(n, tar.NewReader(tee), see); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, tee)
	return err
}

func entries(n int, tr *tar.Reader, see layerFunc) error {
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = see(n, h, tr)
		}
		if err != nil {
			return err
		}
	}
}

// counter hashes and counts what is written to it.
type counter struct {
	h hash.Hash
	n int64
}

func newCounter() *counter { return &counter{h: sha256.New()} }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return c.h.Write(p)
}

func (c *counter) digest() Digest { return Digest("sha256:" + hex.EncodeToString(c.h.Sum(nil))) }
