// SPDX-License-Identifier: MIT

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// full is a config of 16 KB in the shape of a home in use: mostly active keys, few comments.
func full() string {
	var b strings.Builder
	b.WriteString("_config_version: 50\nterminal:\n  backend: docker\n  timeout: 180\n  docker_volumes: [/a:/b]\n")
	for i := 0; b.Len() < 16<<10; i++ {
		fmt.Fprintf(&b, "section_%d:\n  enabled: true # on\n  name: \"some text\"\n  limits: {soft: 10, hard: 2.5}\n  nested:\n    deep: [a, b, c]\n    count: 5\n", i)
	}
	return b.String()
}

func BenchmarkLoad16KB(b *testing.B) {
	dir := b.TempDir()
	testkit.WriteTree(b, dir, map[string]string{"config.yaml": full()})
	h := home.Home{Dir: dir, Profile: home.Default}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(h, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	files := map[string]string{"defaults": "", "16KB": full()}
	if dir := os.Getenv(testkit.CorpusEnv); dir != "" {
		data, err := os.ReadFile(filepath.Join(dir, "00-template", "config.yaml"))
		if err != nil {
			b.Fatal(err)
		}
		files["template126KB"] = string(data)
	}
	for name, text := range files {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(File{"config.yaml", []byte(text)}, File{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	v := parse(b, full(), "-").With(env("X", "y"))
	b.Run("Int", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if n, err := v.Int("terminal", "timeout"); n != 180 || err != nil {
				b.Fatal(n, err)
			}
		}
	})
	b.Run("String", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if s, err := v.String("terminal", "backend"); s != "docker" || err != nil {
				b.Fatal(s, err)
			}
		}
	})
}

func BenchmarkTerminal(b *testing.B) {
	c := parse(b, full(), "-")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewTerminal(TerminalInput{Config: c, UserHome: "/home/u"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck16KB(b *testing.B) {
	in := CheckInput{User: File{"config.yaml", []byte(full())}, Lookup: env("X", "y")}
	b.ReportAllocs()
	for b.Loop() {
		Check(in)
	}
}

func BenchmarkSet(b *testing.B) {
	path := []string{"terminal", "timeout"}
	text := full()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := setInMemory(text, path, "60"); err != nil {
			b.Fatal(err)
		}
	}
}
