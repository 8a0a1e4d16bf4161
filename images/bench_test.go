// SPDX-License-Identifier: MIT

package images

import (
	"fmt"
	"strings"
	"testing"
)

// fiftyMB makes two images of 50 MB each.
func fiftyMB(version string) []made {
	images := release(version)
	for i := range images {
		images[i].noise = 50 << 20
		images[i].layers[1] = []file{text("opt/app", version)}
	}
	return images
}

// BenchmarkPublish publishes an index of two images, 100 MB together, to a registry on
// loopback: SBOM, push, sign, attach, read all back, verify, tag.
func BenchmarkPublish(b *testing.B) {
	b.SetBytes(100 << 20)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		d := newDesk(b, true)
		dir, _ := makeLayout(b, fiftyMB(fmt.Sprintf("1.0.%d", n))...)
		o := d.options(load(b, dir), RollingTag)
		b.StartTimer()
		if _, err := d.Publish(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublishAgain is a publication that was done already.
func BenchmarkPublishAgain(b *testing.B) {
	d := newDesk(b, true)
	dir, _ := makeLayout(b, fiftyMB("1.0.0")...)
	o := d.options(load(b, dir), RollingTag)
	if _, err := d.Publish(b.Context(), o); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(100 << 20)
	for b.Loop() {
		if _, err := d.Publish(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkVerify is what a user does before a pull: no layers.
func BenchmarkVerify(b *testing.B) {
	d := newDesk(b, true)
	d.publish("1.0.0", RollingTag)
	o := VerifyOptions{Ref: d.repo.WithTag(RollingTag), Key: d.signer.Key()}
	for b.Loop() {
		if _, err := d.Verify(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSBOM reads an image with 3000 packages.
func BenchmarkSBOM(b *testing.B) {
	var s strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&s, "Package: p%d\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1.0-%d\nDescription: text\n\n", i, i)
	}
	files := []file{text("var/lib/dpkg/status", s.String())}
	for i := range 1000 {
		files = append(files, text(fmt.Sprintf("n/node_modules/p%d/package.json", i), fmt.Sprintf(`{"name":"p%d","version":"1.0.0"}`, i)),
			text(fmt.Sprintf("p/p%d.dist-info/METADATA", i), fmt.Sprintf("Name: p%d\nVersion: 1\n", i)))
	}
	img := one(b, files)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := img.SBOM(b.Context(), "docker.io/me/sandbox", "tool"); err != nil {
			b.Fatal(err)
		}
	}
}
