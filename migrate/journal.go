// SPDX-License-Identifier: MIT

package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// The kinds of commit.
const (
	kindMigrate  = "migrate"
	kindRollback = "rollback"
)

// formatVersion is that of journals and manifests. Another one is refused, never guessed.
const formatVersion = 1

// journal is the record of a commit under way. It is written after the new files are staged
// and before the first one is put in place, and removed when all is done. config.yaml is
// the last of the files: with its new content in place the commit stands, without it the
// commit is undone.
type journal struct {
	Version  int           `json:"version"`
	Kind     string        `json:"kind"`
	From     int           `json:"from"`
	To       int           `json:"to"`
	Time     time.Time     `json:"time"`
	Manifest string        `json:"manifest"` // written (migrate) or marked (rollback) at the end
	Files    []journalFile `json:"files"`
}

type journalFile struct {
	Name    string `json:"name"`
	Target  string `json:"target"` // resolved
	Temp    string `json:"temp"`
	Backup  string `json:"backup"` // has the content before
	Before  string `json:"before"` // SHA-256, hex
	After   string `json:"after"`
	InPlace bool   `json:"in_place,omitempty"` // being overwritten: may be half old, half new
}

func (j *journal) what() string {
	return fmt.Sprintf("%s %d to %d, %s", j.Kind, j.From, j.To, j.Time.UTC().Format(time.RFC3339))
}

func journalPath(h home.Home) string { return filepath.Join(h.State(), "migrate.journal") }

// readJournal returns nil if no commit is under way.
func readJournal(h home.Home) (*journal, error) {
	data, st, err := atomicfile.Read(journalPath(h))
	if err != nil || !st.Exists {
		return nil, err
	}
	var j journal
	if err := decodeStrict(data, &j); err != nil || j.Version != formatVersion || len(j.Files) == 0 {
		return nil, &Refusal{
			Kind: ErrAmbiguous, File: journalPath(h), Msg: fmt.Sprintf("not a journal of format %d (%v)", formatVersion, err),
			Fix: "a newer hermes-appliance may have written it; finish the migration with that one",
		}
	}
	return &j, nil
}

// decodeStrict reads one JSON value of known fields.
func decodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text after the end")
	}
	return nil
}

// writeJSON replaces a file of ours.
func (m Migrator) writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return m.Files.Write(path, append(data, '\n'), atomicfile.Options{Temp: "." + filepath.Base(path) + ".new"})
}

// clearTemp removes what an earlier run may have left under a staging name of ours.
func (m Migrator) clearTemp(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil //nolint:nilerr // nothing to clear; the staging that follows reports the rest
	}
	return m.Files.Remove(path)
}
