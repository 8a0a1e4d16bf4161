// SPDX-License-Identifier: MIT

package secret

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParseEnv reads arbitrary bytes as .env: no panic, and what comes out is text.
func FuzzParseEnv(f *testing.F) {
	for _, s := range []string{"A=1\n", "\xff\xfeA\x00=\x00", "\xfe\xff\x00A", "\xef\xbb\xbfA='b' # c", "A=\xfc", "A\x00=\x001\x00", "\xff\xfe\x00\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		values, err := parseEnv(strings.NewReader(src))
		if err != nil && values != nil {
			t.Error("values beside an error")
		}
		for name, text := range values {
			if !utf8.ValidString(name) || !utf8.ValidString(text.Reveal()) || strings.Contains(name+text.Reveal(), "\x00") {
				t.Errorf("%q = %q", name, text.Reveal())
			}
		}
	})
}

// FuzzParseOutput reads arbitrary output of a helper: names are names, and nothing is no value.
func FuzzParseOutput(f *testing.F) {
	for _, s := range []string{"A=1\n", `{"A":"1"}`, "dGVzdA==", "{", "A=\nB= =", "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		got, ok := parseOutput(out)
		if !ok && got.Values != nil && len(got.Values) > 0 {
			t.Error("values of an output that was refused")
		}
		for name := range got.Values {
			if !validName(name) {
				t.Errorf("name %q", name)
			}
		}
	})
}
