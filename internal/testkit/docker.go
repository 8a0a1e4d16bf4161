// SPDX-License-Identifier: MIT

package testkit

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// Names of the Docker engine that tests may use.
const (
	// DockerEnv is the address of an engine that belongs to the tests, as unix:///PATH.
	DockerEnv = "HERMES_TEST_DOCKER"
	// DockerImage is the image that is there: Debian with python3 and procps.
	DockerImage = "hermes-test/trixie:base"
)

// Docker returns the address of the engine that tests may use; without one the test is
// skipped. It needs the part "docker". The caller removes what it makes there.
func Docker(t testing.TB) string {
	t.Helper()
	host := os.Getenv(DockerEnv)
	Need(t, "docker", host != "", DockerEnv+" names no engine for tests")
	if path, ok := strings.CutPrefix(host, "unix://"); ok {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			t.Fatalf("%s: %v", DockerEnv, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return host
}
