// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

func TestDetached(t *testing.T) {
	t.Parallel()
	s, other := newSigner(t), newSigner(t)
	data := []byte("0000  hermes-appliance_1.2.3_linux_amd64\n")
	sig, err := s.Detached(data)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Detached(data); err != nil || !bytes.Equal(again, sig) {
		t.Errorf("again: %q, %v; want %q", again, err, sig)
	}
	for name, tt := range map[string]struct {
		key       *Key
		data, sig []byte
		ok        bool
	}{
		"good":            {s.Key(), data, sig, true},
		"no end of line":  {s.Key(), data, bytes.TrimSpace(sig), true},
		"another key":     {other.Key(), data, sig, false},
		"other bytes":     {s.Key(), append([]byte("1"), data[1:]...), sig, false},
		"more bytes":      {s.Key(), append(bytes.Clone(data), '\n'), sig, false},
		"no bytes":        {s.Key(), nil, sig, false},
		"no signature":    {s.Key(), data, nil, false},
		"no base64":       {s.Key(), data, []byte("!"), false},
		"a cut signature": {s.Key(), data, sig[:len(sig)/2/4*4], false},
	} {
		if err := tt.key.CheckDetached(tt.data, tt.sig); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrUnsignedFile) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCosignBlob: the real cosign and ours check each other's signatures of a file, with the
// options that the release workflow gives it.
func TestCosignBlob(t *testing.T) {
	t.Parallel()
	cosign := tool(t, "cosign")
	var d desk
	dir := d.keyFiles(t)
	data := []byte("0000  file\n")
	sig, err := d.signer.Detached(data)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, dir, map[string]string{"checksums.txt": string(data), "ours.sig": string(sig)})
	verify := []string{cosign, "verify-blob", "--key", "cosign.pub", "--insecure-ignore-tlog=true", "--new-bundle-format=false", "--signature", "ours.sig"}
	if out, err := run(t, dir, append(verify, "checksums.txt")...); err != nil {
		t.Errorf("cosign refuses ours: %v\n%s", err, out)
	}
	if out, err := run(t, dir, append(verify, "cosign.pub")...); err == nil {
		t.Errorf("cosign takes ours for something else:\n%s", out)
	}
	out, err := run(t, dir, cosign, "sign-blob", "--yes", "--key", "cosign.key", "--tlog-upload=false", "--use-signing-config=false", "--new-bundle-format=false",
		"--output-signature", "theirs.sig", "checksums.txt")
	if err != nil {
		t.Fatalf("cosign sign-blob: %v\n%s", err, out)
	}
	theirs, err := os.ReadFile(filepath.Join(dir, "theirs.sig"))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.signer.Key().CheckDetached(data, theirs); err != nil {
		t.Errorf("ours refuses cosign's: %v", err)
	}
}
