// SPDX-License-Identifier: MIT

package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Tokens in these tests are made up; they are put together here so that no scanner takes
// this file for a leak.
const body = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4"

func TestShapesHidden(t *testing.T) {
	t.Parallel()
	for prefix := range strings.FieldsSeq("sk- sk-ant-api03- ghp_ gho_ github_pat_ xoxb- xapp- AIza pplx- fal_ fc- bb_live_ gAAAA AKIA sk_live_ SG. hf_ r8_ npm_ pypi- dop_v1_ am_ tvly- exa_ gsk_ syt_ hsk- mem0_ brv_ xai- ntn_ fw_ glpat- glrt- GR1348941 pk-lf-") {
		secret := prefix + body
		for _, text := range []string{secret, "x " + secret + ".", "(" + secret + ")", "'" + secret + "'\n", "a\n" + secret} {
			if got := New(true, nil).String(text); strings.Contains(got, body) {
				t.Errorf("%q: got %q", text, got)
			}
		}
	}
	for _, row := range [][2]string{ // text, what must be gone
		{"OPENAI_API_KEY=" + body, body},
		{"export MY_TOKEN='" + body + "'", body},
		{"  password: hunter22", "hunter22"},
		{`{"api_key": "` + body + `", "x": 1}`, body},
		{`{\"client_secret\": \"` + body + `\"}`, body},
		{`{"accessToken":"` + body + `"}`, body},
		{"db.password = correcthorse", "correcthorse"},
		{"12:   secret: " + body, body},
		{"Authorization: Bearer " + body, body},
		{"authorization: Basic " + body, body},
		{`-H "x-api-key: ` + body + `"`, body},
		{"bot 123456789:AAH" + body + "xyz1234 said", body},
		{"postgres://me:s3cretpw@db/x", "s3cretpw"},
		{"https://" + body + "@github.com/x.git", body},
		{"GET /a?access_token=" + body + "&b=1", body},
		{"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + body, body},
		{"call +4915112345678 now", "15112345678"},
		{"-----BEGIN RSA PRIVATE KEY-----\n" + body + "\n-----END RSA PRIVATE KEY-----", body},
		{"password: $ecret1234", "$ecret1234"},
	} {
		text, gone := row[0], row[1]
		got := New(true, nil).String(text)
		if strings.Contains(got, gone) {
			t.Errorf("%q: got %q, which still holds %q", text, got, gone)
		}
		if again := New(true, nil).String(got); again != got {
			t.Errorf("%q: not stable: %q, then %q", text, got, again)
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "hello", "the tokenizer: cl100k and the secretary: Ann", "commit 3f786850e387550fdab836ed7e6dc881de23001b",
		"550e8400-e29b-41d4-a716-446655440000", "/usr/lib/python3/dist-packages/x.py:12: warning", "max_tokens: 4096 tokens=12",
		"data:image/png;base64,iVBORw0KGgoAAAANSUhEUg==", "api_key: $OPENAI_API_KEY", "api_key=${KEY}", "token: null", `"secret": true`,
		"sk-learn-is-a-library", "am_i_a_function_name_that_is_long", "key: value", "author: me@example.org", "git@github.com:me/repo.git",
		"http://localhost:8080/path?x=1", "12:34:56 +0200", "1 + 12345678 = 12345679", "\xff\xfe not utf-8", "password:", "monkey=12345678901234567890",
		"private_key_path: /etc/x.pem", "token_count=12345678901234567890123", "keyboard: qwertz",
	} {
		if got := New(true, nil).String(text); got != text {
			t.Errorf("got %q, want %q unchanged", got, text)
		}
	}
}

// encodings are the forms that the exact values are looked for in.
func encodings(s string) map[string]string {
	j, _ := json.Marshal(s)
	return map[string]string{
		"raw": s, "base64": base64.StdEncoding.EncodeToString([]byte(s)), "base64url": base64.URLEncoding.EncodeToString([]byte(s)),
		"base64 in text": base64.StdEncoding.EncodeToString([]byte("x" + s + "yz")), "base64 in text, shifted": base64.StdEncoding.EncodeToString([]byte("xy" + s)),
		"hex": hex.EncodeToString([]byte(s)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(s))),
		"query": url.QueryEscape(s), "path": url.PathEscape(s), "json": strings.Trim(string(j), `"`),
	}
}

func randomSecret(r *rand.Rand) string {
	const chars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 !#%&/()=?+-_.:,;<>|\\\"'\n\tä€"
	all := []rune(chars)
	var b strings.Builder
	for range 12 + r.IntN(40) {
		b.WriteRune(all[r.IntN(len(all))])
	}
	return "q" + b.String() + "z"
}

// TestExactNeverLeaks plants random values in every encoding.
func TestExactNeverLeaks(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		secret := randomSecret(rng)
		r := New(true, []string{secret})
		for name, enc := range encodings(secret) {
			text := "before " + enc + " after"
			got := r.String(text)
			core := enc
			if strings.HasPrefix(name, "base64") {
				core = strings.TrimRight(enc, "=")
				core = core[4 : len(core)-4] // the ends may belong to neighbours
			}
			if strings.Contains(got, core) {
				t.Fatalf("%s of %q: got %q", name, secret, got)
			}
		}
	}
}

func TestExactOverlap(t *testing.T) {
	t.Parallel()
	r := New(true, []string{"supersecret", "supersecret-and-more", "secret-and"})
	if got := r.String("a supersecret-and-more b supersecret c"); got != "a "+VaultMarker+" b "+VaultMarker+" c" {
		t.Errorf("got %q", got)
	}
	if got := New(true, []string{"true", "8080", "short12"}).String("true 8080 short12"); got != "true 8080 short12" {
		t.Errorf("short values: got %q", got)
	}
}

func TestEviction(t *testing.T) {
	t.Parallel()
	var values []string
	for i := range maxExact + 5 {
		values = append(values, fmt.Sprintf("plain-words-%c%c%c", 'a'+i%26, 'a'+i/26, 'q'))
	}
	r := New(true, values)
	if got := r.String(values[0]); got != values[0] {
		t.Errorf("the oldest was kept: %q", got)
	}
	if got := r.String(values[len(values)-1]); got != VaultMarker {
		t.Errorf("the newest was lost: %q", got)
	}
}

// TestIsolation: one profile's redactor does not touch another's value.
func TestIsolation(t *testing.T) {
	t.Parallel()
	const a, b = "correct horse battery", "staple of profile bee"
	if got := New(true, []string{b}).String(a); got != a {
		t.Errorf("B's redactor changed A's value: %q", got)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			own := fmt.Sprintf("value of profile %d here", i)
			r := New(true, []string{own})
			for range 100 {
				if r.String(own) != VaultMarker {
					t.Error("own value shown")
				}
			}
		})
	}
	wg.Wait()
}

func TestOff(t *testing.T) {
	t.Parallel()
	text := "token=" + body
	var none *Redactor
	if New(false, []string{body}).String(text) != text || none.String(text) != text {
		t.Error("a redactor that is off changed text")
	}
}

func TestSwitch(t *testing.T) {
	t.Parallel()
	say := func(v string) func() (string, bool) { return func() (string, bool) { return v, true } }
	absent := func() (string, bool) { return "", false }
	config := func(v bool) func() (bool, bool, error) { return func() (bool, bool, error) { return v, true, nil } }
	tests := map[string]struct {
		l    Lookups
		want bool
	}{
		"nothing says anything":         {Lookups{}, true},
		"scope off":                     {Lookups{Scope: say("false"), Dotenv: say("true")}, false},
		"scope on beats config":         {Lookups{Scope: say("1"), Config: nil}, true},
		"scope silent: .env not asked":  {Lookups{Scope: absent, Dotenv: say("false")}, true},
		"no scope: .env":                {Lookups{Dotenv: say("off")}, false},
		"blank is no word":              {Lookups{Dotenv: say(" ")}, true},
		"garbage means on":              {Lookups{Dotenv: say("maybe")}, true},
		"config off":                    {Lookups{Scope: absent, Config: nil}, true},
		"unreadable config means on":    {Lookups{}, true},
		"config says off, scope silent": {Lookups{Scope: absent}, false},
	}
	withConfig := tests["config says off, scope silent"]
	withConfig.l.Config = func() (bool, bool, error) { return config(false)() }
	tests["config says off, scope silent"] = withConfig
	broken := tests["unreadable config means on"]
	broken.l.Config = func() (bool, bool, error) { return false, true, errors.New("EACCES") }
	tests["unreadable config means on"] = broken
	for name, tt := range tests {
		if got := Switch(tt.l); got != tt.want {
			t.Errorf("%s: got %t, want %t", name, got, tt.want)
		}
	}
}

// sample is text with credentials of every kind.
func sample(r *rand.Rand, exact []string) string {
	parts := []string{"plain words ", "token=" + body + " ", "ghp_" + body + "\n", "\n", "password: hunter22\n", "x", " ", "-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.x1y2 "}
	var b strings.Builder
	for range 30 {
		if r.IntN(4) == 0 {
			b.WriteString(exact[r.IntN(len(exact))])
			continue
		}
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

// TestStreamEqualsWhole: however a text is cut, the stream hides what the whole does.
func TestStreamEqualsWhole(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	exact := []string{"a multi\nline value\nhere", "one line value xyz"}
	r := New(true, exact)
	for range 300 {
		text := sample(rng, exact)
		want := r.String(text)
		var out strings.Builder
		w := r.Writer(&out)
		for rest := text; rest != ""; {
			n := min(1+rng.IntN(17), len(rest))
			if _, err := w.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != want {
			t.Fatalf("text %q\nstream %q\nwhole  %q", text, out.String(), want)
		}
	}
}

func TestStreamIsBounded(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	w := New(true, nil).Writer(&out)
	for range 1000 {
		if _, err := w.Write([]byte(strings.Repeat("x", 100))); err != nil {
			t.Fatal(err)
		}
		if len(w.buf) > 2*maxHeld {
			t.Fatalf("holds %d bytes of a line without end", len(w.buf))
		}
	}
	if err := w.Close(); err != nil || out.Len() != 100_000 {
		t.Errorf("%d bytes came out, %v", out.Len(), err)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("token=" + body)
	f.Add("a://b:c@d")
	f.Fuzz(func(t *testing.T, s string) {
		r := New(true, []string{"zqzqzqzqzqzq"})
		once := r.String(s + "zqzqzqzqzqzq")
		if strings.Contains(once, "zqzqzqzqzqzq") {
			t.Errorf("%q: leaks", s)
		}
	})
}

func BenchmarkRedact1MB(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	var values []string
	for range 50 {
		values = append(values, randomSecret(rng))
	}
	r := New(true, values)
	line := "2026-11-30 08:00:00 INFO gateway: turn finished in 1.2 s, 4096 tokens, path /home/me/project/main.go:12\n"
	text := strings.Repeat(line, 1<<20/len(line))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.String(text)
	}
}
