// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// npmHost is where the tarballs come from.
const npmHost = "registry.npmjs.org"

// mirrored are the hosts that a build fetches from in the clear: what it gets is verified by
// checksum or by Debian's signature.
func mirrored() []string {
	return []string{npmHost, "deb.debian.org", "security.debian.org", "snapshot.debian.org"}
}

// lasting matches what never changes under its name.
var lasting = regexp.MustCompile(`\.(deb|tgz)$|/by-hash/`)

// mirror is an HTTP proxy on loopback for one build. It fetches for it, with this machine's
// trust in certificates, and keeps what lasts, so that the next build from nothing needs no
// network for it. It is no open proxy: only the hosts of [mirrored].
type mirror struct {
	dir    string
	server *http.Server
	addr   string
	client *http.Client
	done   chan struct{}
	lost   atomic.Int32 // files that did not arrive whole
}

// newMirror starts a mirror that keeps its files in dir. The caller closes it.
func newMirror(ctx context.Context, dir string) (*mirror, error) {
	//nolint:gosec // public packages
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &mirror{dir: dir, addr: "http://" + ln.Addr().String(), client: &http.Client{Timeout: 15 * time.Minute}, done: make(chan struct{})}
	m.server = &http.Server{
		Handler: m, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	go func() {
		defer close(m.done)
		m.server.Serve(ln) //nolint:errcheck // it ends with Close
	}()
	return m, nil
}

func (m *mirror) Close() error {
	err := m.server.Close()
	<-m.done
	m.client.CloseIdleConnections()
	return err
}

// ServeHTTP answers a request for an absolute URL.
func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u := *r.URL
	if r.Method != http.MethodGet && r.Method != http.MethodHead || u.Scheme != "http" || !slices.Contains(mirrored(), u.Host) {
		http.Error(w, "the build may only fetch from "+strings.Join(mirrored(), ", "), http.StatusForbidden)
		return
	}
	if u.Host == npmHost {
		u.Scheme = "https"
	}
	hash := sha256.Sum256([]byte(u.String()))
	name := hex.EncodeToString(hash[:8]) + "-" + filepath.Base(u.Path)
	path := filepath.Join(m.dir, name)
	keep := r.Method == http.MethodGet && lasting.MatchString(u.Path)
	if keep {
		if f, err := os.Open(path); err == nil {
			defer f.Close() //nolint:errcheck // opened for reading
			http.ServeContent(w, r, "", time.Time{}, f)
			return
		}
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, u.String(), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, h := range []string{"If-Modified-Since", "Cache-Control", "User-Agent", "Accept"} {
		if v := r.Header.Get(h); v != "" {
			req.Header.Set(h, v)
		}
	}
	res, err := m.client.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	for _, h := range []string{"Content-Length", "Content-Type", "Last-Modified"} {
		if v := res.Header.Get(h); v != "" {
			w.Header().Set(h, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	if !keep || res.StatusCode != http.StatusOK {
		io.Copy(w, res.Body) //nolint:errcheck // the build sees a short answer
		return
	}
	m.keep(w, res, name)
}

// keep sends a body on and stores it, if it is whole. A build that goes away does not stop
// that: the next one wants it too.
func (m *mirror) keep(w io.Writer, res *http.Response, name string) {
	// One that did not arrive whole is not kept, and the client has seen the same short body.
	err := atomicfile.Writer{}.Stream(m.dir, func(f io.Writer) (string, error) {
		n, err := io.Copy(io.MultiWriter(f, &tolerant{w: w}), res.Body)
		if err == nil && res.ContentLength >= 0 && n != res.ContentLength {
			err = fmt.Errorf("%d bytes of %d", n, res.ContentLength)
		}
		return name, err
	})
	if err != nil {
		m.lost.Add(1)
	}
}

// tolerant stops writing after the first error and says nothing of it.
type tolerant struct {
	w    io.Writer
	dead bool
}

func (t *tolerant) Write(p []byte) (int, error) {
	if !t.dead {
		if _, err := t.w.Write(p); err != nil {
			t.dead = true
		}
	}
	return len(p), nil
}
