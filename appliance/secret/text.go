// SPDX-License-Identifier: MIT

package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Mask is what a [Text] prints, whatever it holds.
const Mask = "***"

// Text is a secret string that prints [Mask] wherever it is formatted, logged or encoded. The
// zero value is the empty text. It is immutable and safe for concurrent use; compare with
// [Text.Equal], not with ==.
//
// The string is behind a pointer on purpose: fmt calls no methods of unexported fields and
// none for %p, and would print a plain string there; of a pointer it prints the address.
type Text struct{ p *string }

// Wrap makes a secret of a string.
func Wrap(s string) Text {
	if s == "" {
		return Text{}
	}
	return Text{&s}
}

// Reveal returns the secret. It is the only way to the value.
func (t Text) Reveal() string {
	if t.p == nil {
		return ""
	}
	return *t.p
}

// Empty reports whether there is no text.
func (t Text) Empty() bool { return t.p == nil || *t.p == "" }

// Equal compares in a time that depends on the lengths only.
func (t Text) Equal(o Text) bool {
	return subtle.ConstantTimeCompare([]byte(t.Reveal()), []byte(o.Reveal())) == 1
}

// String returns [Mask].
func (Text) String() string { return Mask }

// GoString returns [Mask].
func (Text) GoString() string { return Mask }

// Format prints [Mask] for every verb and flag.
func (Text) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, Mask) //nolint:errcheck // fmt has no use for it
}

// LogValue returns [Mask].
func (Text) LogValue() slog.Value { return slog.StringValue(Mask) }

// MarshalJSON returns [Mask]; there is no way back.
func (Text) MarshalJSON() ([]byte, error) { return []byte(`"` + Mask + `"`), nil }

// MarshalText returns [Mask]; there is no way back.
func (Text) MarshalText() ([]byte, error) { return []byte(Mask), nil }
