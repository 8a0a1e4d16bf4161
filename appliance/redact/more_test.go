// SPDX-License-Identifier: MIT

package redact

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestLinear: what is looked at in vain is not looked at again for each place in it. A scan in
// the square of the length would take hours here.
func TestLinear(t *testing.T) {
	t.Parallel()
	r := New(true, []string{"an exact value", "one\nof lines"})
	for _, unit := range []string{
		"=sk-a", " sk-a", ".sk-a", "+xoxb-a", "key=", `key="`, `key='\`, `key:\"`, "aKey=", "1234567:", "authorization: ", "cookie: a", "cookie: a=",
		"a://", "a://b:", "?key=", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIEaaaaaaaaaaaaaaaaaa", "bearer ", "+1",
		"--password ", "--token a", "a.b", "aaaa", "one\nof line",
	} {
		n := 1 << 16
		if strings.HasSuffix(unit, "-a") {
			n <<= 5
		}
		if r.String(strings.Repeat(unit, n/len(unit))) == "" {
			t.Errorf("%q: nothing is left", unit)
		}
	}
}

func TestKeysAndOptions(t *testing.T) {
	t.Parallel()
	r := New(true, nil)
	for text, gone := range map[string]string{
		"PGPASSWORD=hunter2hunter2 psql":               "hunter2",
		"dbpassword: correcthorse":                     "correcthorse",
		"SMTP_PASS=correcthorse":                       "correcthorse",
		"smtp_pass: hunter2x":                          "hunter2",
		"REDISCLI_AUTH=correcthorse":                   "correcthorse",
		"X-Custom-Auth: abc123def":                     "abc123",
		`{"Cookie": "session=abc123; theme=x9y8"}`:     "x9y8",
		"set-cookie: sid=abc123def; Path=/":            "abc123",
		"me 12 0.0 tool --password hunter2x --verbose": "hunter2x",
		`["tool", "--api-key", "` + body + `"]`:        body,
		"tool -token " + body:                          body,
		"-----BEGIN PGP PRIVATE KEY BLOCK-----\n" + body + "\n-----END PGP PRIVATE KEY BLOCK-----":   body,
		"-----BEGIN OPENSSH PRIVATE KEY-----\n" + strings.Repeat(body+"\n", 3):                       body,
		`{"k":"-----BEGIN PRIVATE KEY-----\n` + strings.Repeat(body, 2) + `\n` + body + `\n","a":1}`: body,
	} {
		got := r.String(text)
		if strings.Contains(got, gone) {
			t.Errorf("%q: got %q, which still holds %q", text, got, gone)
		}
		if again := r.String(got); again != got {
			t.Errorf("%q: not stable: %q, then %q", text, got, again)
		}
	}
	for _, text := range []string{
		"tests_pass: 12", "pass: ok", "first_pass: done", "two-pass: encoder", "  --token string   what to send", "--password TEXT", "--token <token>", "--api-key KEY  the key",
		"--password-file /etc/x", "use --token to give one", "git-auth: required", "basic_auth: true", "a cookie: sweet", "--secret $NAME", "no-password: false",
		"-----BEGIN PRIVATE KEY----- is how it begins", "-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----",
	} {
		if got := r.String(text); got != text {
			t.Errorf("got %q, want %q unchanged", got, text)
		}
	}
}

// TestExactOfLines: a value of several lines, and one whose base64 is, are found as a terminal
// and base64 print them.
func TestExactOfLines(t *testing.T) {
	t.Parallel()
	lines := "first line\nsecond line\r\nthird"
	long := strings.Repeat("plain words that go on ", 8) + "to the end"
	r := New(true, []string{lines, long})
	for _, text := range []string{
		lines, "x\r\nfirst line\r\nsecond line\r\nthird\r\n", "first line\nsecond line\nthird", strings.ReplaceAll(lines, "\r", ""),
	} {
		if got := r.String(text); strings.Contains(got, "second") {
			t.Errorf("%q: got %q", text, got)
		}
	}
	enc := base64.StdEncoding.EncodeToString([]byte(long + "\n"))
	var wrapped strings.Builder
	for len(enc) > wrapAt {
		wrapped.WriteString(enc[:wrapAt] + "\n")
		enc = enc[wrapAt:]
	}
	wrapped.WriteString(enc + "\n")
	if got := r.String(wrapped.String()); strings.Contains(got, wrapped.String()[wrapAt+1:wrapAt+20]) {
		t.Errorf("wrapped base64: got %q", got)
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"key": true, "api_key": true, "Authorization": true, "Cookie": true, "X-Custom-Auth": true, "PGPASSWORD": true, "MY_CRED": true, "SMTP_PASS": true, "--token": true,
		"keyboard": false, "tokenizer": false, "author": false, "passthrough": false, "NORMAL": false, "": false, "max_tokens": false,
	} {
		if got := Secret(name); got != want {
			t.Errorf("%q: got %t, want %t", name, got, want)
		}
	}
}
