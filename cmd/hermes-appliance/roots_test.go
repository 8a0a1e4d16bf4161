// SPDX-License-Identifier: MIT

package main

import (
	"crypto/x509"
	"runtime"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestReportB33NoRoots (PicoClaw #1936): where a system has no certificates of authorities,
// ours are used; where it has some, they alone count.
func TestReportB33NoRoots(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" {
		testkit.Need(t, "posix", false, "this system verifies by itself")
	}
	none := func(string) string { return "" }
	empty := t.TempDir()
	if !noRoots(none, empty) {
		t.Error("an empty system is said to have roots")
	}
	if noRoots(func(name string) string { return map[string]string{"SSL_CERT_FILE": "/mine.pem"}[name] }, empty) {
		t.Error("the user's own file does not count")
	}
	for _, name := range []string{"etc/ssl/certs/ca-certificates.crt", "etc/ssl/certs/0a775a30.0", "etc/pki/tls/certs/ca-bundle.crt"} {
		dir := t.TempDir()
		testkit.WriteTree(t, dir, map[string]string{name: "x"})
		if noRoots(none, dir) {
			t.Errorf("%s is overlooked", name)
		}
	}
	want := 0
	for r := range bundle.Roots() {
		want++
		if _, err := x509.ParseCertificate(r.Certificate); err != nil {
			t.Error(err)
		}
	}
	if got := len(builtInRoots().Subjects()); got != want || want < 100 { //nolint:staticcheck // it is no system pool
		t.Errorf("%d of %d roots", got, want)
	}
}
