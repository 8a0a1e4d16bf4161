// SPDX-License-Identifier: MIT

package images

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
)

// SignBlob returns the detached signature of a file, as "cosign sign-blob --key" writes it: one
// line of base64 of an ASN.1 ECDSA signature over the file's SHA-256.
func (s *Signer) SignBlob(data []byte) ([]byte, error) {
	sig, err := s.sign(data)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return []byte(base64.StdEncoding.EncodeToString(sig) + "\n"), nil
}

// VerifyBlob checks a detached signature of [Signer.SignBlob]. The error wraps [ErrWrongKey] if
// it is none of this key's over this content.
func (k *Key) VerifyBlob(data, sig []byte) error {
	raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(sig)))
	if err != nil || len(raw) == 0 {
		return errors.New("signature: expected one line of base64, as cosign sign-blob writes it")
	}
	if !k.verify(data, raw) {
		return ErrWrongKey
	}
	return nil
}
