// SPDX-License-Identifier: MIT

package main

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// noRoots reports whether a Unix system has no certificates of authorities where Go looks for
// them: an empty container, Termux (PicoClaw #1936). Asking Go itself would parse them all,
// which a command that contacts nobody need not pay for.
func noRoots(getenv func(string) string, root string) bool {
	if runtime.GOOS == "windows" || runtime.GOOS == "darwin" || getenv("SSL_CERT_FILE") != "" || getenv("SSL_CERT_DIR") != "" {
		return false
	}
	for _, name := range []string{
		"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/ca-bundle.pem", "etc/pki/tls/cacert.pem",
		"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/ssl/cert.pem", "usr/local/etc/ssl/cert.pem", "usr/local/share/certs/ca-root-nss.crt",
	} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			return false
		}
	}
	for _, dir := range []string{"etc/ssl/certs", "etc/pki/tls/certs", "usr/local/etc/ssl/certs", "usr/local/share/certs"} {
		if entries, err := os.ReadDir(filepath.Join(root, dir)); err == nil && len(entries) > 0 {
			return false
		}
	}
	return true
}

// builtInRoots are those of Mozilla that came with the program.
func builtInRoots() *x509.CertPool {
	p := x509.NewCertPool()
	for r := range bundle.Roots() {
		cert, err := x509.ParseCertificate(r.Certificate)
		switch {
		case err != nil: // a test parses them all
		case r.Constraint == nil:
			p.AddCert(cert)
		default:
			p.AddCertWithConstraint(cert, r.Constraint)
		}
	}
	return p
}
