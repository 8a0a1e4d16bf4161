// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

func TestKeyFiles(t *testing.T) {
	t.Parallel()
	private, public, err := GenerateKey([]byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(private, []byte("-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\n")) || !bytes.HasPrefix(public, []byte("-----BEGIN PUBLIC KEY-----\n")) {
		t.Errorf("not cosign's files: %s %s", private[:60], public)
	}
	s, err := ParseSigner(private, []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(public)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.sign([]byte("data"))
	if err != nil || !key.verify([]byte("data"), sig) || key.verify([]byte("date"), sig) {
		t.Errorf("sign and verify: %v", err)
	}
	again, err := s.sign([]byte("data"))
	if err != nil || !bytes.Equal(sig, again) {
		t.Error("signing again gave another signature")
	}
	if _, err := ParseSigner(private, []byte("wrong")); err == nil || !strings.Contains(err.Error(), "COSIGN_PASSWORD") || strings.Contains(err.Error(), "wrong") {
		t.Errorf("wrong password: %v", err)
	}
	for name, data := range map[string]string{"empty": "", "the public key": string(public), "no PEM": "x"} {
		if _, err := ParseSigner([]byte(data), nil); err == nil || !strings.Contains(err.Error(), "keygen") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseKey(private); err == nil {
		t.Error("a private key was taken for a public one")
	}
}

// TestSecretsDoNotPrint: keys and passwords are not in what is printed.
func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	s := newSigner(t)
	raw, err := s.key.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	d := new(big.Int).SetBytes(raw).String()
	for _, text := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s", s, s, s, s)} {
		if strings.Contains(text, d) || strings.Contains(text, "D:") {
			t.Errorf("the key is printed: %s", text)
		}
	}
	a := Auth{"me", "hunter2"}
	if text := fmt.Sprintf("%v %+v %#v %s", a, a, a, a); strings.Contains(text, "hunter2") {
		t.Errorf("the password is printed: %s", text)
	}
	o := PublishOptions{Signer: s}
	if text := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(text, d) {
		t.Error("the options print the key")
	}
}

// TestPayload pins what is signed, byte for byte: the order and names are cosign's.
func TestPayload(t *testing.T) {
	t.Parallel()
	got, err := payload(Ref{Name: "docker.io/nousresearch/hermes-sandbox"}, DigestOf(nil))
	want := `{"critical":{"identity":{"docker-reference":"docker.io/nousresearch/hermes-sandbox"},"image":{"docker-manifest-digest":"` + string(DigestOf(nil)) + `"},"type":"cosign container image signature"},"optional":null}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s\nwant %s (%v)", got, want, err)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	repo, d := Ref{Name: "docker.io/me/sandbox"}, DigestOf(nil)
	claim := func(name, digest, kind string) []byte {
		return fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":%q},"image":{"docker-manifest-digest":%q},"type":%q}}`, name, digest, kind)
	}
	for _, tt := range []struct {
		data []byte
		ok   bool
	}{
		{claim("docker.io/me/sandbox", string(d), signatureClaim), true},
		{claim("index.docker.io/me/sandbox", string(d), signatureClaim), true}, // as cosign writes it
		{claim("docker.io/me/sandbox:desktop", string(d), signatureClaim), true},
		{claim("me/sandbox", string(d), signatureClaim), true},
		{claim("docker.io/me/sandbox2", string(d), signatureClaim), false},
		{claim("ghcr.io/me/sandbox", string(d), signatureClaim), false},
		{claim("", string(d), signatureClaim), false},
		{claim("docker.io/me/sandbox", string(DigestOf([]byte("x"))), signatureClaim), false},
		{claim("docker.io/me/sandbox", string(d), "atomic container signature"), false},
		{[]byte("{"), false},
	} {
		if err := claims(tt.data, repo, d); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.data, err)
		}
	}
}

// TestEnvelope pins DSSE by the example of its specification.
func TestEnvelope(t *testing.T) {
	t.Parallel()
	if got := string(preAuth("http://example.com/HelloWorld", []byte("hello world"))); got != "DSSEv1 29 http://example.com/HelloWorld 11 hello world" {
		t.Errorf("got %q", got)
	}
	s := newSigner(t)
	doc := mustJSON(t, statement{Type: statementType, PredicateType: provenanceType, Subject: []resource{{Digest: sha(DigestOf(nil))}}})
	sealed, err := s.seal(doc)
	if err != nil {
		t.Fatal(err)
	}
	st, err := s.Key().unseal(sealed)
	if err != nil || !st.covers(DigestOf(nil)) || st.covers(DigestOf([]byte("x"))) {
		t.Errorf("%+v, %v", st, err)
	}
	var e envelope
	if err := json.Unmarshal(sealed, &e); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*envelope){
		"payload":      func(e *envelope) { e.Payload = b64([]byte("{}")) },
		"type":         func(e *envelope) { e.PayloadType = "text/plain" },
		"no signature": func(e *envelope) { e.Signatures = nil },
		"signature":    func(e *envelope) { e.Signatures[0].Sig = b64([]byte("x")) },
	} {
		c := e
		c.Signatures = append([]envelopeSignature{}, e.Signatures...)
		change(&c)
		if _, err := s.Key().unseal(mustJSON(t, c)); err == nil {
			t.Errorf("%s changed, and it opened", name)
		}
	}
}
