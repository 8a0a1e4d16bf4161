// SPDX-License-Identifier: MIT

package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
)

// TestSenders is the table of who gets in.
func TestSenders(t *testing.T) {
	t.Parallel()
	const body = `{"action":"opened"}`
	const other = "another secret"
	began := time.Now()
	at := func(d time.Duration) string { return strconv.FormatInt(began.Add(d).Unix(), 10) }
	now, old, ahead := at(0), at(-6*time.Minute), at(6*time.Minute)
	std := func(key, id, when, body string) string {
		m := hmac.New(sha256.New, []byte(key))
		m.Write([]byte(id + "." + when + "." + body))
		return base64.StdEncoding.EncodeToString(m.Sum(nil))
	}
	good := sum(testSecret, body)
	for name, c := range map[string]struct {
		want    int
		headers []string
	}{
		"github":                        {202, sign(testSecret, body)},
		"github in capitals":            {202, []string{"X-Hub-Signature-256", "sha256=" + strings.ToUpper(good)}},
		"github, wrong secret":          {401, sign(other, body)},
		"github, other body":            {401, sign(testSecret, body+" ")},
		"github without its prefix":     {401, []string{"X-Hub-Signature-256", good}},
		"github, cut":                   {401, []string{"X-Hub-Signature-256", "sha256=" + good[:62]}},
		"github, empty":                 {401, []string{"X-Hub-Signature-256", ""}},
		"github, twice":                 {401, append(sign(testSecret, body), sign(other, body)...)},
		"github wrong, token right":     {401, append(sign(other, body), "X-Gitlab-Token", testSecret)},
		"sha1 only":                     {401, []string{"X-Hub-Signature", "sha1=" + good[:40]}},
		"gitlab":                        {202, []string{"X-Gitlab-Token", testSecret}},
		"gitlab, wrong":                 {401, []string{"X-Gitlab-Token", testSecret + "x"}},
		"gitlab, prefix":                {401, []string{"X-Gitlab-Token", testSecret[:4]}},
		"gitlab with its other heads":   {202, []string{"X-Gitlab-Token", testSecret, "Webhook-Id", "m1", "Webhook-Timestamp", now}},
		"bearer":                        {202, []string{"Authorization", "bearer " + testSecret}},
		"bearer, wrong":                 {401, []string{"Authorization", "Bearer x"}},
		"basic":                         {401, []string{"Authorization", "Basic " + testSecret}},
		"linear":                        {202, []string{"Linear-Signature", good}},
		"generic":                       {202, []string{"X-Webhook-Signature", good}},
		"generic, wrong":                {401, []string{"X-Webhook-Signature", sum(other, body)}},
		"v2":                            {202, []string{"X-Webhook-Signature-V2", sum(testSecret, now+"."+body), "X-Webhook-Timestamp", now}},
		"v2, old":                       {401, []string{"X-Webhook-Signature-V2", sum(testSecret, old+"."+body), "X-Webhook-Timestamp", old}},
		"v2, ahead":                     {401, []string{"X-Webhook-Signature-V2", sum(testSecret, ahead+"."+body), "X-Webhook-Timestamp", ahead}},
		"v2, another time":              {401, []string{"X-Webhook-Signature-V2", sum(testSecret, old+"."+body), "X-Webhook-Timestamp", now}},
		"v2 stripped of its time":       {401, []string{"X-Webhook-Signature-V2", sum(testSecret, now+"."+body), "X-Webhook-Signature", good}},
		"v2, time is no number":         {401, []string{"X-Webhook-Signature-V2", sum(testSecret, "now."+body), "X-Webhook-Timestamp", "now"}},
		"standard":                      {202, []string{"Webhook-Id", "m", "Webhook-Timestamp", now, "Webhook-Signature", "v1," + std(testSecret, "m", now, body)}},
		"standard, two of which one":    {202, []string{"Webhook-Id", "m", "Webhook-Timestamp", now, "Webhook-Signature", "v1,AAAA v1," + std(testSecret, "m", now, body)}},
		"standard, other version":       {401, []string{"Webhook-Id", "m", "Webhook-Timestamp", now, "Webhook-Signature", "v2," + std(testSecret, "m", now, body)}},
		"standard, other id":            {401, []string{"Webhook-Id", "n", "Webhook-Timestamp", now, "Webhook-Signature", "v1," + std(testSecret, "m", now, body)}},
		"standard, old":                 {401, []string{"Webhook-Id", "m", "Webhook-Timestamp", old, "Webhook-Signature", "v1," + std(testSecret, "m", old, body)}},
		"standard without id":           {401, []string{"Webhook-Timestamp", now, "Webhook-Signature", "v1," + std(testSecret, "", now, body)}},
		"svix":                          {202, []string{"Svix-Id", "m", "Svix-Timestamp", now, "Svix-Signature", "v1," + std(testSecret, "m", now, body)}},
		"nothing":                       {401, nil},
		"the name of no authentication": {401, []string{"X-Gitlab-Token", NoAuth}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, map[string]any{"r": map[string]any{}})
			w.now = began // however late this part of the test gets its turn
			got := w.send("/webhooks/r", body, c.headers...)
			if got.status != c.want {
				t.Errorf("got %d %s, want %d; log:\n%s", got.status, got.text, c.want, w.log)
			}
			if n := len(w.profiles[""].asked()); n != map[int]int{202: 1}[c.want] {
				t.Errorf("%d turns", n)
			}
			if strings.Contains(w.log.String()+got.text, testSecret) {
				t.Error("the secret is in the log or the answer")
			}
		})
	}
}

// TestWhsecSecret: a secret of Standard Webhooks is base64 behind its prefix.
func TestWhsecSecret(t *testing.T) {
	t.Parallel()
	now := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, []byte("raw key"))
	m.Write([]byte("m." + now + ".{}"))
	sig := "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))
	for s, want := range map[string]int{"whsec_" + base64.StdEncoding.EncodeToString([]byte("raw key")): 202, "whsec_": 401, "whsec_%": 401, "raw key": 202} {
		w := newWorld(t, map[string]any{"r": map[string]any{"secret": s}})
		if got := w.send("/webhooks/r", "{}", "Webhook-Id", "m", "Webhook-Timestamp", now, "Webhook-Signature", sig); got.status != want {
			t.Errorf("%s: got %d, want %d", s, got.status, want)
		}
	}
}

// TestOpensslSigns has openssl make the signatures: a second opinion on ours.
func TestOpensslSigns(t *testing.T) {
	t.Parallel()
	bin, err := exec.LookPath("openssl")
	testkit.Need(t, "openssl", err == nil, "openssl is not installed")
	w := newWorld(t, map[string]any{"r": map[string]any{"prompt": "{text}"}})
	for _, body := range []string{`{"text":"plain"}`, "{\"text\":\"gr\u00fc\u00dfe, \\u0000 \u2603\"}", "{\n\t\"text\": \"" + strings.Repeat("x", 70_000) + "\"\r\n}"} {
		cmd := exec.CommandContext(t.Context(), bin, "dgst", "-sha256", "-hmac", testSecret, "-r")
		cmd.Env, cmd.Stdin = []string{}, strings.NewReader(body)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		digest, _, _ := bytes.Cut(out, []byte(" "))
		if got := w.send("/webhooks/r", body, "X-Hub-Signature-256", "sha256="+string(digest)); got.status != 202 {
			t.Errorf("openssl's signature: got %d %s", got.status, got.text)
		}
		digest[0] ^= 1
		if got := w.send("/webhooks/r", body, "X-Hub-Signature-256", "sha256="+string(digest)); got.status != 401 {
			t.Errorf("one bit off: got %d", got.status)
		}
	}
}

// TestNobodyUnknownIsParsed: what is not authenticated is told nothing about its body, and
// costs its route nothing.
func TestNobodyUnknownIsParsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{"events": []any{"x"}}})
	w.profiles[""].given.Limits.PerMinute = 1
	for range 50 {
		for _, headers := range [][]string{nil, sign("wrong", "not JSON"), {"X-Gitlab-Token", "wrong"}} {
			if got := w.send("/webhooks/r", "not JSON", headers...); got.status != 401 {
				t.Fatalf("got %d %s", got.status, got.text)
			}
		}
	}
	if n := strings.Count(w.log.String(), "was refused"); n != 1 {
		t.Errorf("the log tells it %d times", n)
	}
	if got := w.post("r", "not JSON"); got.status != 400 || strings.Contains(got.text, "not JSON\"") {
		t.Errorf("authentic and broken: %d %s", got.status, got.text)
	}
}

// TestNoSecretIsNoKey: an empty secret lets nobody in, whatever comes with the request.
func TestNoSecretIsNoKey(t *testing.T) {
	t.Parallel()
	if same("", "") || !same("x", "x") {
		t.Error("an empty token is the key to an empty secret")
	}
}

// TestSlowSendersKeepNobodyOut: whoever knows the name of a route can hold up any number of
// bodies; what they have sent is what counts, not how many they are.
func TestSlowSendersKeepNobodyOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string]any{"r": map[string]any{}})
	const slow = 200
	var held []net.Conn
	for range slow {
		c, err := net.Dial("tcp", w.http.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
		if _, err := io.WriteString(c, "POST /webhooks/r HTTP/1.1\r\nHost: x\r\nX-Hub-Signature-256: sha256=00\r\nContent-Length: 9\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Minute); w.srv.room.Load() != mostReading-slow; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d bytes are being read", mostReading-w.srv.room.Load())
		}
	}
	if r := w.post("r", `{}`); r.status != 202 {
		t.Errorf("%d %s", r.status, r.text)
	}
	w.srv.room.Add(4 - mostReading + slow)
	if r := w.post("r", `{"a":1}`); r.status != 503 || r.header.Get("Retry-After") != "1" {
		t.Errorf("no room: %d %s", r.status, r.text)
	}
	w.srv.room.Add(mostReading - slow - 4)
	if r := w.send("/webhooks/r", `{}`, "Authorization", "Bearer wrong"); r.status != 401 {
		t.Errorf("%d", r.status)
	}
	for _, c := range held {
		c.Close()
	}
	w.http.Close() // waits for the requests
	if left := w.srv.room.Load(); left != mostReading {
		t.Errorf("%d bytes were not given back", mostReading-left)
	}
}
