// SPDX-License-Identifier: MIT

package images

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrUnsignedFile says that a file's signature is not one by the key over exactly those bytes.
var ErrUnsignedFile = errors.New("the signature is not this key's for these bytes")

// Detached signs a file's bytes as "cosign sign-blob" does: ECDSA over SHA-256, ASN.1, in
// base64 with a line's end. The same bytes get the same signature.
func (s *Signer) Detached(data []byte) ([]byte, error) {
	sig, err := s.sign(data)
	if err != nil {
		return nil, err
	}
	return []byte(base64.StdEncoding.EncodeToString(sig) + "\n"), nil
}

// CheckDetached wants sig, as [Signer.Detached] or "cosign sign-blob" wrote it, to be the key's
// over data. The error wraps [ErrUnsignedFile].
func (k *Key) CheckDetached(data, sig []byte) error {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(sig)))
	if err != nil {
		return fmt.Errorf("%w: expected base64: %w", ErrUnsignedFile, err)
	}
	if !k.verify(data, raw) {
		return ErrUnsignedFile
	}
	return nil
}
