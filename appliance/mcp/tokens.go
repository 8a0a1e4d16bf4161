// SPDX-License-Identifier: MIT

package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// tokenStore is what is kept of a login to a server, in upstream's files: NAME.json has the
// tokens, NAME.client.json what this program is registered as, NAME.meta.json where the server
// lets people log in. What this program does not know in them stays.
type tokenStore struct{ dir, name string }

// The files of a login, by what follows the name.
const (
	tokenPart  = ".json"
	clientPart = ".client.json"
	metaPart   = ".meta.json"
)

// tokenName is the name of a server's files, as upstream makes it.
func tokenName(server string) string {
	name := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, server)
	if r := []rune(strings.Trim(name, "_")); len(r) > 0 {
		return string(r[:min(len(r), 128)])
	}
	return "default"
}

func (t tokenStore) path(part string) string { return filepath.Join(t.dir, t.name+part) }

// read returns one of the files; nil = there is none.
func (t tokenStore) read(part string) (map[string]any, error) {
	data, err := os.ReadFile(t.path(part))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))))
	d.UseNumber()
	if err := d.Decode(&m); err != nil || m == nil {
		return nil, fmt.Errorf("%s is no JSON object", t.path(part)) // the decoder's words could quote a token
	}
	return m, nil
}

// write replaces one of the files; nobody but the owner may read it.
func (t tokenStore) write(part string, m map[string]any) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	var w atomicfile.Writer
	if err := w.Mkdir(t.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return w.Write(t.path(part), append(data, '\n'), atomicfile.Options{Mode: 0o600})
}

// text is a field that is a text, "" otherwise.
func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// number is a field that is a number.
func number(m map[string]any, key string) (float64, bool) {
	switch n := m[key].(type) {
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case float64:
		return n, true
	}
	return 0, false
}

// early is how long before its end an access token is renewed.
const early = time.Minute

// expired reports whether the access token is at its end. Files of old versions only say how
// long it was to last when they were written.
func (t tokenStore) expired(m map[string]any, now time.Time) bool {
	end, ok := number(m, "expires_at")
	if !ok {
		lasts, known := number(m, "expires_in")
		info, err := os.Stat(t.path(tokenPart))
		if !known || err != nil {
			return false // until the server says so
		}
		end = float64(info.ModTime().Unix()) + lasts
	}
	return float64(now.Add(early).Unix()) >= end
}
