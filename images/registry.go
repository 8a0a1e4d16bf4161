// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of what is published.
const (
	imageManifestType = string(types.OCIManifestSchema1)
	imageIndexType    = string(types.OCIImageIndex)
	imageConfigType   = string(types.OCIConfigJSON)
)

// maxManifest limits what is read into memory of a registry or a layout.
const maxManifest = 8 << 20

// errNotFound says that the registry answered, and has no such thing.
var errNotFound = errors.New("not in the registry")

// RegistryOptions say how registries are talked to. The zero value is anonymous.
type RegistryOptions struct {
	Auth      Auth              // wins over DockerConfig
	DockerDir string            // the directory of Docker's config.json; "" = none is read
	Transport http.RoundTripper // nil = one of our own
	Attempts  int               // how often a request is tried; 0 = 5
	Backoff   time.Duration     // wait after the first failure, tripled each time; 0 = 1s
	Log       *slog.Logger      // nil = none
}

// Registry talks to registries: HTTPS, and plain HTTP to loopback only. A request that fails
// with a 5xx, a 429 (its Retry-After is kept) or a broken connection is tried again. It is
// safe for concurrent use.
type Registry struct {
	o      RegistryOptions
	common []remote.Option
	pusher *remote.Pusher
	puller *remote.Puller
	log    *slog.Logger

	mu      sync.Mutex
	clients map[string]*http.Client // by repository
}

// NewRegistry makes a client.
func NewRegistry(o RegistryOptions) (*Registry, error) {
	if o.Attempts == 0 {
		o.Attempts = 5
	}
	if o.Backoff == 0 {
		o.Backoff = time.Second
	}
	if o.Transport == nil {
		o.Transport = newTransport()
	}
	o.Transport = &guarded{next: o.Transport, patience: time.Minute}
	r := &Registry{o: o, log: o.Log, clients: map[string]*http.Client{}}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.common = []remote.Option{
		remote.WithAuthFromKeychain(keychain{o.Auth, o.DockerDir}), remote.WithTransport(o.Transport), remote.WithRetryBackoff(r.backoff()),
		remote.WithRetryStatusCodes(retried()...), remote.WithRetryPredicate(temporary), remote.WithUserAgent("hermes-appliance"),
	}
	var err1, err2 error
	r.pusher, err1 = remote.NewPusher(r.common...)
	r.puller, err2 = remote.NewPuller(r.common...)
	return r, errors.Join(err1, err2)
}

func (r *Registry) backoff() remote.Backoff {
	return remote.Backoff{Duration: r.o.Backoff, Factor: 3, Jitter: 0.1, Steps: r.o.Attempts}
}

// repo is a repository as the library names it.
func (r *Registry) repo(ref Ref) (name.Repository, error) {
	return name.NewRepository(ref.Name, name.StrictValidation)
}

// point is a tag or digest as the library names it.
func (r *Registry) point(ref Ref) (name.Reference, error) {
	repo, err := r.repo(ref)
	switch {
	case err != nil:
		return nil, err
	case ref.Digest != "":
		return repo.Digest(string(ref.Digest)), nil
	case ref.Tag != "":
		return repo.Tag(ref.Tag), nil
	}
	return nil, fmt.Errorf("%s names neither a tag nor a digest", ref)
}

// client returns an authenticated client for reading a repository.
func (r *Registry) client(ctx context.Context, ref Ref) (*http.Client, name.Repository, error) {
	repo, err := r.repo(ref)
	if err != nil {
		return nil, repo, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clients[ref.Name]; c != nil {
		return c, repo, nil
	}
	auth, err := authn.Resolve(ctx, keychain{r.o.Auth, r.o.DockerDir}, repo)
	if err != nil {
		return nil, repo, err
	}
	retrying := transport.NewRetry(r.o.Transport, transport.WithRetryBackoff(r.backoff()),
		transport.WithRetryPredicate(temporary), transport.WithRetryStatusCodes(retried()...))
	tr, err := transport.NewWithContext(ctx, repo.Registry, auth, retrying, []string{repo.Scope(transport.PullScope)})
	if err != nil {
		return nil, repo, fmt.Errorf("%s: %w", ref.Host(), err)
	}
	r.clients[ref.Name] = &http.Client{Transport: tr}
	return r.clients[ref.Name], repo, nil
}

// get asks for one path below the repository. The caller closes the body. A 404 is
// errNotFound.
func (r *Registry) get(ctx context.Context, ref Ref, path, accept string) (*http.Response, error) {
	c, repo, err := r.client(ctx, ref)
	if err != nil {
		return nil, err
	}
	u := fmt.Sprintf("%s://%s/v2/%s/%s", repo.Scheme(), repo.RegistryStr(), repo.RepositoryStr(), path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if err := transport.CheckError(resp, http.StatusOK); err != nil {
		if resp.StatusCode == http.StatusNotFound {
			err = errNotFound
		}
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

// remoteManifest is a manifest as a registry gave it; its digest is recomputed.
type remoteManifest struct {
	raw       []byte
	mediaType string
	digest    Digest
}

// manifest fetches the manifest that ref names. Bytes that are not those of the digest asked
// for are [ErrTampered].
func (r *Registry) manifest(ctx context.Context, ref Ref) (m remoteManifest, err error) {
	what := string(ref.Digest)
	if what == "" {
		what = ref.Tag
	}
	err = r.again(ctx, func() error {
		resp, err := r.get(ctx, ref, "manifests/"+what, imageIndexType+", "+imageManifestType+", "+string(types.DockerManifestList)+", "+string(types.DockerManifestSchema2))
		if err != nil {
			return err
		}
		m.mediaType = resp.Header.Get("Content-Type")
		m.raw, err = io.ReadAll(io.LimitReader(resp.Body, maxManifest+1))
		return errors.Join(err, resp.Body.Close())
	})
	if err != nil {
		return m, fmt.Errorf("%s: %w", ref, err)
	}
	m.digest = DigestOf(m.raw)
	if ref.Digest != "" && m.digest != ref.Digest {
		return m, fmt.Errorf("%s: %w: the registry's bytes for it are %s", ref, ErrTampered, m.digest)
	}
	return m, nil
}

// blob streams a blob through read, which may be called again after a broken connection and
// must then start over.
func (r *Registry) blob(ctx context.Context, ref Ref, d Digest, read func(io.Reader) error) error {
	err := r.again(ctx, func() error {
		resp, err := r.get(ctx, ref, "blobs/"+string(d), "*/*")
		if err != nil {
			return err
		}
		return errors.Join(read(resp.Body), resp.Body.Close())
	})
	if err != nil {
		return fmt.Errorf("%s: blob %s: %w", ref.Name, d, err)
	}
	return nil
}

// smallBlob fetches a blob into memory and checks it against its descriptor.
func (r *Registry) smallBlob(ctx context.Context, ref Ref, d v1.Descriptor) (data []byte, err error) {
	err = r.blob(ctx, ref, Digest(d.Digest.String()), func(body io.Reader) error {
		data, err = io.ReadAll(io.LimitReader(body, maxBlob+1))
		return err
	})
	if err != nil {
		return nil, err
	}
	if got := DigestOf(data); got != Digest(d.Digest.String()) || int64(len(data)) != d.Size {
		return nil, fmt.Errorf("%s: blob %s: %w: the registry's %d bytes for it are %s", ref.Name, d.Digest, ErrTampered, len(data), got)
	}
	return data, nil
}

// maxBlob limits configs, signatures and attached documents.
const maxBlob = 64 << 20

// again repeats what was broken off in the middle; what is refused outright has been
// repeated below already.
func (r *Registry) again(ctx context.Context, do func() error) (err error) {
	wait := r.o.Backoff
	for n := 0; ; n++ {
		if err = do(); err == nil || !brokenOff(err) || n+1 >= r.o.Attempts || ctx.Err() != nil {
			return err
		}
		r.log.Info("registry_broke_off", "attempt", n+1, "error", err.Error())
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 3
	}
}

// tags lists the tags of a repository; one that does not exist has none.
func (r *Registry) tags(ctx context.Context, ref Ref) ([]string, error) {
	repo, err := r.repo(ref)
	if err != nil {
		return nil, err
	}
	tags, err := r.puller.List(ctx, repo)
	if te, ok := errors.AsType[*transport.Error](err); ok && te.StatusCode == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: listing tags: %w", ref.Name, err)
	}
	return tags, nil
}
