// SPDX-License-Identifier: MIT

package images

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
)

// The signature is cosign's: sigstore/cosign specs/SIGNATURE_SPEC.md.
const (
	simpleSigningType   = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureAnnotation = "dev.cosignproject.cosign/signature"
	signatureClaim      = "cosign container image signature"
	signatureSuffix     = "sig"

	privateKeyPEM    = "ENCRYPTED SIGSTORE PRIVATE KEY"
	oldPrivateKeyPEM = "ENCRYPTED COSIGN PRIVATE KEY"
	publicKeyPEM     = "PUBLIC KEY"
)

// Signer signs with an ECDSA P-256 key. It never shows the key. Signing the same twice gives
// the same bytes (RFC 6979), so that an interrupted publication repeats itself exactly.
type Signer struct{ key *ecdsa.PrivateKey }

// Key checks signatures.
type Key struct{ key *ecdsa.PublicKey }

// GenerateKey makes a key pair in cosign's files: the private key encrypted with password,
// and the public key.
func GenerateKey(password []byte) (private, public []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	sealed, err := encrypted.Encrypt(der, password)
	if err != nil {
		return nil, nil, err
	}
	public, err = (&Signer{key}).Key().PEM()
	return pem.EncodeToMemory(&pem.Block{Type: privateKeyPEM, Bytes: sealed}), public, err
}

// ParseSigner opens a private key as "cosign generate-key-pair" writes it.
func ParseSigner(data, password []byte) (*Signer, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != privateKeyPEM && block.Type != oldPrivateKeyPEM {
		return nil, errors.New("signing key: expected a file of cosign's with an \"" + privateKeyPEM + "\"; make one with \"images keygen\"")
	}
	der, err := encrypted.Decrypt(block.Bytes, password)
	if err != nil {
		return nil, errors.New("signing key: the password (COSIGN_PASSWORD) does not open it")
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, errors.New("signing key: it holds no PKCS #8 key")
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("signing key: expected ECDSA on the curve P-256")
	}
	return &Signer{ec}, nil
}

// ParseKey reads a public key: cosign.pub.
func ParseKey(data []byte) (*Key, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != publicKeyPEM {
		return nil, errors.New("public key: expected PEM with a \"" + publicKeyPEM + "\", as in cosign.pub")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	ec, ok := key.(*ecdsa.PublicKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("public key: expected ECDSA on the curve P-256")
	}
	return &Key{ec}, nil
}

// Key returns the public half.
func (s *Signer) Key() *Key { return &Key{&s.key.PublicKey} }

// String shows nothing of the key.
func (s *Signer) String() string { return "***" }

// GoString shows nothing of the key.
func (s *Signer) GoString() string { return "***" }

// PEM returns the key as cosign.pub holds it.
func (k *Key) PEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.key)
	return pem.EncodeToMemory(&pem.Block{Type: publicKeyPEM, Bytes: der}), err
}

func (s *Signer) sign(data []byte) ([]byte, error) {
	sum := sha256.Sum256(data)
	return s.key.Sign(nil, sum[:], crypto.SHA256)
}

func (k *Key) verify(data, sig []byte) bool {
	sum := sha256.Sum256(data)
	return ecdsa.VerifyASN1(k.key, sum[:], sig)
}

// simpleSigning is the payload that is signed.
type simpleSigning struct {
	Critical struct {
		Identity struct {
			Reference string `json:"docker-reference"`
		} `json:"identity"`
		Image struct {
			Digest Digest `json:"docker-manifest-digest"`
		} `json:"image"`
		Type string `json:"type"`
	} `json:"critical"`
	Optional map[string]any `json:"optional"`
}

// payload returns what is signed for a manifest in a repository.
func payload(repo Ref, d Digest) ([]byte, error) {
	var p simpleSigning
	p.Critical.Identity.Reference, p.Critical.Image.Digest, p.Critical.Type = repo.Name, d, signatureClaim
	return json.Marshal(p)
}

// putSignature signs a manifest that is in the registry. Signatures of others stay; if ours
// is there nothing is sent.
func (r *Registry) putSignature(ctx context.Context, repo Ref, d Digest, s *Signer) error {
	data, err := payload(repo, d)
	if err != nil {
		return err
	}
	sig, err := s.sign(data)
	if err != nil {
		return fmt.Errorf("signing %s: %w", d, err)
	}
	text := base64.StdEncoding.EncodeToString(sig)
	a := artifact{layers: []artifactLayer{{simpleSigningType, data, map[string]string{signatureAnnotation: text}}}}
	tag := repo.WithTag(d.attached(signatureSuffix))
	others, err := r.signatures(ctx, tag)
	switch {
	case errors.Is(err, errNotFound):
	case err != nil:
		return err
	default:
		for _, l := range others {
			if Digest(l.Digest.String()) == DigestOf(data) && l.Annotations[signatureAnnotation] == text {
				return nil
			}
			other, err := r.smallBlob(ctx, repo, l)
			if err != nil {
				return err
			}
			a.layers = append(a.layers, artifactLayer{string(l.MediaType), other, maps.Clone(l.Annotations)})
		}
	}
	return r.putArtifact(ctx, repo, a, tag.Tag)
}

// signatures returns the signatures under a tag.
func (r *Registry) signatures(ctx context.Context, tag Ref) ([]v1.Descriptor, error) {
	m, err := r.manifest(ctx, tag)
	if err != nil {
		return nil, err
	}
	var man v1.Manifest
	if err := json.Unmarshal(m.raw, &man); err != nil {
		return nil, fmt.Errorf("%s: %w", tag, err)
	}
	return slices.DeleteFunc(man.Layers, func(l v1.Descriptor) bool { return l.MediaType != simpleSigningType }), nil
}

// checkSignature wants one signature by key over d in this repository. Whatever else is
// there does not matter.
func (r *Registry) checkSignature(ctx context.Context, repo Ref, d Digest, key *Key) error {
	at := repo.WithDigest(d)
	layers, err := r.signatures(ctx, repo.WithTag(d.attached(signatureSuffix)))
	if errors.Is(err, errNotFound) || err == nil && len(layers) == 0 {
		return fmt.Errorf("%s: %w", at, ErrUnsigned)
	}
	if err != nil {
		return err
	}
	// The most telling of the reasons why none of them counts: a signature of the right key
	// for something else says more than one of another key.
	why := fmt.Errorf("%s: %w", at, ErrWrongKey)
	for _, l := range layers {
		data, err := r.smallBlob(ctx, repo, l)
		if err != nil {
			return err
		}
		sig, err := base64.StdEncoding.DecodeString(l.Annotations[signatureAnnotation])
		if err != nil || !key.verify(data, sig) {
			continue
		}
		if err := claims(data, repo, d); err != nil {
			why = err
			continue
		}
		return nil
	}
	return why
}

// claims checks what a payload, whose signature is good, is a signature of.
func claims(data []byte, repo Ref, d Digest) error {
	var p simpleSigning
	at := repo.WithDigest(d)
	if err := json.Unmarshal(data, &p); err != nil || p.Critical.Type != signatureClaim {
		return fmt.Errorf("%s: %w: what the key signed is not a %s", at, ErrUnsigned, signatureClaim)
	}
	if p.Critical.Image.Digest != d {
		return fmt.Errorf("%s: %w: the signature beside it is for %s", at, ErrTampered, p.Critical.Image.Digest)
	}
	// cosign writes index.docker.io where engines say docker.io; a tag may follow.
	signed, err := ParseRef(p.Critical.Identity.Reference)
	if err != nil || signed.Name != repo.Name {
		return fmt.Errorf("%s: %w: it was signed for %s", at, ErrOtherRepository, strings.TrimSpace(p.Critical.Identity.Reference))
	}
	return nil
}
