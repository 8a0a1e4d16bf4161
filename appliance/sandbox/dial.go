// SPDX-License-Identifier: MIT

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/moby/moby/client"
)

// Discover returns the address of the engine: DOCKER_HOST, the docker context that is in
// use, CONTAINER_HOST, else the first of the usual sockets of docker and podman that exists.
// The error is an [*EngineError] of [ErrUnreachable].
func Discover(getenv func(string) string) (string, error) {
	if host := strings.TrimSpace(getenv("DOCKER_HOST")); host != "" {
		return host, nil
	}
	host, err := contextHost(getenv)
	if host != "" || err != nil {
		return host, err
	}
	if host := strings.TrimSpace(getenv("CONTAINER_HOST")); host != "" {
		return host, nil
	}
	if runtime.GOOS == "windows" {
		return client.DefaultDockerHost, nil
	}
	places := sockets(getenv)
	for _, path := range places {
		if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeSocket != 0 {
			return "unix://" + path, nil
		}
	}
	return "", &EngineError{
		Kind: ErrUnreachable, Op: "find a container engine", Msg: "no socket at " + strings.Join(places, ", "),
		Fix: "install Docker or podman, or set DOCKER_HOST to where the engine is",
	}
}

// sockets are the usual places, a person's own engine after the host's.
func sockets(getenv func(string) string) []string {
	out := []string{"/var/run/docker.sock"}
	run, user := getenv("XDG_RUNTIME_DIR"), getenv("HOME")
	if run != "" {
		out = append(out, filepath.Join(run, "docker.sock"))
	}
	if user != "" {
		out = append(out, filepath.Join(user, ".docker", "run", "docker.sock"), filepath.Join(user, ".docker", "desktop", "docker.sock"))
	}
	if run != "" {
		out = append(out, filepath.Join(run, "podman", "podman.sock"))
	}
	return append(out, "/run/podman/podman.sock")
}

// configDir is where the docker command keeps its contexts and logins; "" = unknown.
func configDir(getenv func(string) string) string {
	if dir := getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if user := getenv("HOME"); user != "" {
		return filepath.Join(user, ".docker")
	}
	return ""
}

// contextHost returns the address of the docker context in use, "" if that is the default.
func contextHost(getenv func(string) string) (string, error) {
	dir := configDir(getenv)
	name := getenv("DOCKER_CONTEXT")
	if name == "" && dir != "" {
		var config struct{ CurrentContext string }
		data, err := os.ReadFile(filepath.Join(dir, "config.json"))
		if err == nil && json.Unmarshal(data, &config) == nil {
			name = config.CurrentContext
		}
	}
	if name == "" || name == "default" {
		return "", nil
	}
	sum := sha256.Sum256([]byte(name))
	path := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json")
	var meta struct {
		Endpoints map[string]struct{ Host string }
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &meta)
	}
	if host := meta.Endpoints["docker"].Host; err == nil && host != "" {
		return host, nil
	}
	if err == nil {
		err = errors.New("it names no address")
	}
	return "", &EngineError{
		Kind: ErrUnreachable, Op: fmt.Sprintf("use the docker context %q", name), Msg: path + ": " + err.Error(), Err: err,
		Fix: "set DOCKER_HOST, or choose another context with docker context use",
	}
}

// connect makes a client that has its own transport: an exec must not wait for a free
// connection, and nothing is read from the process's environment.
func connect(host string, getenv func(string) string) (*client.Client, error) {
	scheme, _, ok := strings.Cut(host, "://")
	if !ok || scheme != "unix" && scheme != "tcp" && scheme != "npipe" && scheme != "http" && scheme != "https" {
		return nil, fmt.Errorf("%q is no address this program can use; expected unix:///PATH, npipe:////./pipe/NAME or tcp://HOST:PORT", host)
	}
	opts := []client.Opt{
		client.WithHTTPClient(&http.Client{
			CheckRedirect: client.CheckRedirect,
			Transport: &http.Transport{
				DialContext:     (&net.Dialer{Timeout: DialTimeout}).DialContext,
				MaxIdleConns:    6,
				IdleConnTimeout: 30 * time.Second,
			},
		}),
		client.WithHost(host),
	}
	if dir := getenv("DOCKER_CERT_PATH"); scheme == "tcp" && getenv("DOCKER_TLS_VERIFY") != "" {
		if dir == "" {
			dir = configDir(getenv)
		}
		opts = append(opts, client.WithTLSClientConfig(filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
	}
	return client.New(opts...)
}
