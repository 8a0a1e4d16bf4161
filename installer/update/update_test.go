// SPDX-License-Identifier: MIT

package update

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/images"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// built is a build of the program, made once.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "update")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/hermes-appliance")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return os.ReadFile(path)
})

// keys makes a pair of keys.
func keys(t *testing.T) (*images.Signer, *images.Key) {
	t.Helper()
	private, _, err := images.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := images.ParseSigner(private, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Key()
}

// release is a directory with a release in it.
type release struct {
	dir, name string
	data      []byte
}

func (r release) path() string { return filepath.Join(r.dir, r.name) }

// publish writes a program, its list and the list's signature.
func publish(t *testing.T, s *images.Signer, name string, data []byte) release {
	t.Helper()
	r := release{t.TempDir(), name, data}
	testkit.WriteTree(t, r.dir, map[string]string{name: string(data)})
	r.list(t, s, fmt.Sprintf("%s  %s\n", atomicfile.Hash(data), name))
	return r
}

// list writes a signed list.
func (r release) list(t *testing.T, s *images.Signer, text string) {
	t.Helper()
	sig, err := s.Detached([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteTree(t, r.dir, map[string]string{Checksums: text, Signature: string(sig)})
}

func fileOf(version string) string {
	return fmt.Sprintf("hermes-appliance_%s_%s_%s", version, runtime.GOOS, runtime.GOARCH)
}

func running(version string) Running {
	return Running{generation.Binary{Path: "/opt/hermes-appliance", Version: version, SHA256: strings.Repeat("0", 64)}, runtime.GOOS, runtime.GOARCH}
}

func program(t *testing.T) []byte {
	t.Helper()
	data, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestOpen(t *testing.T) {
	t.Parallel()
	s, key := keys(t)
	data := program(t)
	r := publish(t, s, fileOf("1.10.0"), data)
	got, err := Open(r.path(), running("1.9.0"), Options{Key: key})
	if err != nil || got.Binary.Version != "1.10.0" || got.Binary.Path != "/opt/hermes-appliance" || got.Older || got.Current || !bytes.Equal(got.Program, data) {
		t.Errorf("%+v %v", got.Binary, err)
	}
	same := running("1.10.0")
	same.SHA256 = atomicfile.Hash(data)
	if got, err := Open(r.path(), same, Options{Key: key}); err != nil || !got.Current {
		t.Errorf("the program that runs: %v", err)
	}
}

// TestTampered: nothing of this may replace a program.
func TestTampered(t *testing.T) {
	t.Parallel()
	s, key := keys(t)
	other, _ := keys(t)
	data := program(t)
	name := fileOf("1.1.0")
	write := func(t *testing.T, r release, file, text string) {
		t.Helper()
		testkit.WriteTree(t, r.dir, map[string]string{file: text})
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	arch := bytes.ReplaceAll(data, []byte("GOARCH="+runtime.GOARCH), []byte("GOARCH=mips"+strings.Repeat("x", len(runtime.GOARCH)-4)))
	sum := atomicfile.Hash(data)
	for _, c := range []struct {
		name  string
		make  func(t *testing.T) release
		want  string
		again Options
	}{
		{"one byte differs", func(t *testing.T) release {
			r := publish(t, s, name, data)
			bad := bytes.Clone(data)
			bad[len(bad)/2] ^= 1
			write(t, r, name, string(bad))
			return r
		}, "damaged or not the release", Options{}},
		{"cut short", func(t *testing.T) release {
			r := publish(t, s, name, data)
			write(t, r, name, string(data[:len(data)/2]))
			return r
		}, "damaged or not the release", Options{}},
		{"empty", func(t *testing.T) release {
			r := publish(t, s, name, data)
			write(t, r, name, "")
			return r
		}, "damaged or not the release", Options{}},
		{"another key", func(t *testing.T) release { return publish(t, other, name, data) }, "does not prove it", Options{}},
		{"the list was changed", func(t *testing.T) release {
			r := publish(t, s, name, data)
			write(t, r, name, "evil")
			write(t, r, Checksums, atomicfile.Hash([]byte("evil"))+"  "+name+"\n")
			return r
		}, "does not prove it", Options{}},
		{"no signature", func(t *testing.T) release {
			r := publish(t, s, name, data)
			os.Remove(filepath.Join(r.dir, Signature))
			return r
		}, "nothing else proves", Options{}},
		{"an empty signature", func(t *testing.T) release {
			r := publish(t, s, name, data)
			write(t, r, Signature, "\n")
			return r
		}, "does not prove it", Options{}},
		{"no list", func(t *testing.T) release {
			r := publish(t, s, name, data)
			os.Remove(filepath.Join(r.dir, Checksums))
			return r
		}, "nothing else proves", Options{}},
		{"not in the list", func(t *testing.T) release {
			r := publish(t, s, name, data)
			r.list(t, s, strings.Repeat("a", 64)+"  other\n")
			return r
		}, "does not name it", Options{}},
		{"a list that is none", func(t *testing.T) release {
			r := publish(t, s, name, data)
			r.list(t, s, sum+"  ../"+name+"\n")
			return r
		}, "line 1", Options{}},
		{"a name twice", func(t *testing.T) release {
			r := publish(t, s, name, data)
			r.list(t, s, sum+"  "+name+"\n"+strings.Repeat("a", 64)+"  "+name+"\n")
			return r
		}, "line 2", Options{}},
		{"another system by name", func(t *testing.T) release { return publish(t, s, "hermes-appliance_1.1.0_plan9_mips", data) }, "is a program for plan9/mips", Options{}},
		{"another system by content", func(t *testing.T) release { return publish(t, s, name, arch) }, "whatever its name says", Options{}},
		{"no program", func(t *testing.T) release { return publish(t, s, name, []byte("#!/bin/sh\n")) }, "no program that Go built", Options{}},
		{"another program", func(t *testing.T) release { return publish(t, s, name, self) }, "is another program", Options{}},
		{"another name", func(t *testing.T) release {
			r := publish(t, s, name, data)
			write(t, r, "new", string(data))
			r.name = "new"
			return r
		}, "does not name it", Options{}},
		{"an archive", func(t *testing.T) release { return publish(t, s, "hermes-appliance_1.1.0.tar.gz", data) }, "expected hermes-appliance_VERSION_OS_ARCH", Options{}},
		{"a directory", func(t *testing.T) release {
			r := publish(t, s, name, data)
			os.Remove(r.path())
			write(t, r, name+"/", "")
			return r
		}, "expected a file", Options{}},
		{"older", func(t *testing.T) release { return publish(t, s, fileOf("0.9.0"), data) }, "older than 1.0.0", Options{Downgrade: true}},
		{"older by one pre-release", func(t *testing.T) release { return publish(t, s, fileOf("1.0.0-rc.1"), data) }, "older than 1.0.0", Options{Downgrade: true}},
		{"the same version, other bytes", func(t *testing.T) release { return publish(t, s, fileOf("1.0.0"), data) }, "is another file", Options{}},
		{"no version", func(t *testing.T) release { return publish(t, s, fileOf("latest"), data) }, "is none", Options{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := c.make(t)
			var refusal *generation.Refusal
			if _, err := Open(r.path(), running("1.0.0"), Options{Key: key}); !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
			c.again.Key = key
			if _, err := Open(r.path(), running("1.0.0"), c.again); (err == nil) != c.again.Downgrade {
				t.Errorf("with %+v: %v", c.again, err)
			}
		})
	}
}

// TestNoKeyNoUpdate: without a key nothing is proven (fail closed), and a build without a version
// says that it cannot tell what is newer.
func TestNoKeyNoUpdate(t *testing.T) {
	t.Parallel()
	s, key := keys(t)
	r := publish(t, s, fileOf("1.1.0"), program(t))
	if _, err := Open(r.path(), running("1.0.0"), Options{}); err == nil || !strings.Contains(err.Error(), "--key") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(r.path(), running("devel"), Options{Key: key}); err == nil || !strings.Contains(err.Error(), "--allow-downgrade") {
		t.Errorf("got %v", err)
	}
	if _, err := Open(r.path(), running("devel"), Options{Key: key, Downgrade: true}); err != nil {
		t.Error(err)
	}
}

// TestParseKey: the key of a release build is the one of cosign.pub.
func TestParseKey(t *testing.T) {
	t.Parallel()
	s, key := keys(t)
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	got, err := ParseKey(base64.StdEncoding.EncodeToString(block.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.Detached([]byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(got.CheckDetached([]byte("x"), sig)); err != nil {
		t.Error(err)
	}
	if err := got.CheckDetached([]byte("y"), sig); !errors.Is(err, images.ErrUnsignedFile) {
		t.Errorf("got %v", err)
	}
	if none, err := ParseKey(""); none != nil || err != nil {
		t.Errorf("got %v %v", none, err)
	}
	if _, err := ParseKey("!"); err == nil {
		t.Error("no error")
	}
}

// FuzzList: no list makes a file ours that is not in it.
func FuzzList(f *testing.F) {
	private, _, err := images.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	s, err := images.ParseSigner(private, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.Repeat("a", 64) + "  name\n")
	f.Add(strings.Repeat("A", 64) + " *name\r\n\n")
	f.Add("x")
	f.Fuzz(func(t *testing.T, text string) {
		sig, err := s.Detached([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		testkit.WriteTree(t, dir, map[string]string{Checksums: text, Signature: string(sig)})
		l, err := signedList(dir, s.Key())
		if err != nil {
			return
		}
		for name, sum := range l.sums {
			if name != filepath.Base(name) || len(sum) != 64 || !strings.Contains(strings.ToLower(text), sum) {
				t.Errorf("%q %q", name, sum)
			}
		}
		if err := l.check("name", strings.Repeat("b", 64)); err == nil && !strings.Contains(strings.ToLower(text), strings.Repeat("b", 64)) {
			t.Error("found what is not there")
		}
	})
}
