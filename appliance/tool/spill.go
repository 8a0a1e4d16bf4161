// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

const (
	defaultMaxChars = 100_000
	previewChars    = 1500
	spillAge        = 24 * time.Hour
	maxStem         = 120
)

// Spill keeps results that are too large for the model in files, and gives the model a
// preview and the path. nil cuts them. It is safe for concurrent use.
type Spill struct {
	Home  string // the profile's home; files go to cache/spillover in it
	Files atomicfile.Writer
	// Visible returns where the session's terminal backend reads a file of this machine, false
	// if it cannot. nil = the backend is this machine.
	Visible func(ctx context.Context, path string) (string, bool)
	// Keep writes a result inside the backend and makes sure that all of it is there. nil = it
	// cannot.
	Keep func(ctx context.Context, name string, data []byte) (path string, err error)
	Now  func() time.Time // nil = time.Now

	pruned sync.Once
}

// keep returns what the model gets to see of a result.
func (s *Spill) keep(ctx context.Context, log *slog.Logger, t Tool, c Call, content string) string {
	limit := t.MaxChars
	if limit == 0 {
		limit = defaultMaxChars
	}
	chars := utf8.RuneCountInString(content)
	if limit < 0 || chars <= limit {
		return content
	}
	body := pageable(content)
	preview, more := cutPreview(body)
	if s != nil {
		if path, err := s.store(ctx, safeName(c.ID), []byte(body)); err == nil {
			return persisted(path, body, preview, more)
		} else {
			log.Warn("large result could not be kept", "tool", t.Name, "error", err)
		}
	}
	return fmt.Sprintf("%s\n\n[Truncated: the result has %d characters, and there was no place to keep the rest.]", preview, chars)
}

func persisted(path, body, preview string, more bool) string {
	size := fmt.Sprintf("%.1f KB", float64(len(body))/1024)
	if len(body) >= 1<<20 {
		size = fmt.Sprintf("%.1f MB", float64(len(body))/(1<<20))
	}
	if more {
		preview += "\n..."
	}
	return fmt.Sprintf("<persisted-output>\nThis tool result was too large (%d characters, %s).\nFull output saved to: %s\n"+
		"Page through it with read_file (offset, limit) or search_files; do not ask for the same data again.\n\nPreview:\n%s\n</persisted-output>",
		utf8.RuneCountInString(body), size, path, preview)
}

// cutPreview is the start of a text, up to the end of a line if there is one near.
func cutPreview(body string) (string, bool) {
	r := []rune(body[:min(len(body), utf8.UTFMax*previewChars)])
	if len(r) <= previewChars && len(string(r)) == len(body) {
		return body, false
	}
	cut := string(r[:min(len(r), previewChars)])
	if i := strings.LastIndexByte(cut, '\n'); i > len(cut)/2 {
		cut = cut[:i+1]
	}
	return cut, true
}

// pageable takes the text out of the envelope of an MCP result, so that its lines are lines of
// the file. What else the envelope has comes behind it.
func pageable(content string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal([]byte(content), &m) != nil {
		return content
	}
	var text string
	for k := range m {
		if k != "result" && k != "structuredContent" && k != "_meta" {
			return content
		}
	}
	if json.Unmarshal(m["result"], &text) != nil || text == "" {
		return content
	}
	delete(m, "result")
	if len(m) == 0 {
		return text
	}
	rest, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return text
	}
	return text + "\n\n<mcp-result-metadata>\n" + string(rest) + "\n</mcp-result-metadata>\n"
}

var unsafe = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// safeName makes a file's name of a call's id, which a model chose.
func safeName(id string) string {
	if id == "" {
		id = "tool_result"
	}
	stem := strings.Trim(unsafe.ReplaceAllString(id, "_"), "._-")
	if stem == id && len(stem) <= maxStem {
		return stem + ".txt"
	}
	sum := sha256.Sum256([]byte(id))
	stem = strings.TrimRight(stem[:min(len(stem), maxStem)], "._-")
	if stem == "" {
		stem = "tool_result"
	}
	return stem + "_" + hex.EncodeToString(sum[:])[:12] + ".txt"
}

// store keeps a result on this machine, and where the backend reads it.
func (s *Spill) store(ctx context.Context, name string, data []byte) (string, error) {
	path, err := s.here(name, data)
	if s.Visible == nil {
		return path, err
	}
	if err == nil {
		if there, ok := s.Visible(ctx, path); ok {
			return there, nil
		}
	}
	if s.Keep == nil {
		return "", fmt.Errorf("the terminal backend cannot read %s", path)
	}
	return s.Keep(ctx, name, data)
}

// here writes a result into the home and makes sure that all of it is there.
func (s *Spill) here(name string, data []byte) (string, error) {
	dir := filepath.Join(s.Home, "cache")
	for _, d := range []string{dir, filepath.Join(dir, "spillover")} {
		if err := s.Files.Mkdir(d, 0o700); err != nil {
			return "", err
		}
		dir = d
	}
	s.pruned.Do(func() { s.prune(dir) })
	path := filepath.Join(dir, name)
	if err := s.Files.Write(path, data, atomicfile.Options{}); err != nil {
		return "", err
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(data)) {
		return "", fmt.Errorf("%s: not all of it is there (%w)", path, s.Files.Remove(path))
	}
	return path, nil
}

// prune removes results of yesterday.
func (s *Spill) prune(dir string) {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && now().Sub(info.ModTime()) > spillAge {
			_ = s.Files.Remove(filepath.Join(dir, e.Name())) //nolint:errcheck // it will be tried again
		}
	}
}
