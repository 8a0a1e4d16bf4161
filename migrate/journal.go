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
	"slices"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
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
//
// It holds names only, never a path. A home that was left in a container is found elsewhere
// by the host, and a journal that anyone but us wrote into a home must not lead root out of
// it.
type journal struct {
	Version  int           `json:"version"`
	Kind     string        `json:"kind"`
	From     int           `json:"from"`
	To       int           `json:"to"`
	Time     time.Time     `json:"time"`
	Manifest string        `json:"manifest"` // in backups/config; written (migrate) or marked (rollback) at the end
	Files    []journalFile `json:"files"`
}

type journalFile struct {
	Name    string `json:"name"`
	Temp    string `json:"temp"`   // beside the file that name leads to
	Backup  string `json:"backup"` // in backups/config; has the content before
	Before  string `json:"before"` // SHA-256, hex
	After   string `json:"after"`
	InPlace bool   `json:"in_place,omitempty"` // being overwritten: may be half old, half new
}

func (j *journal) what() string {
	return fmt.Sprintf("%s %d to %d, %s", j.Kind, j.From, j.To, j.Time.UTC().Format(time.RFC3339))
}

func (j *journal) manifest(h home.Home) string { return filepath.Join(h.Backups(), j.Manifest) }

func (f journalFile) backup(h home.Home) string { return filepath.Join(h.Backups(), f.Backup) }

// foreign says that someone else has written a file since.
func (f journalFile) foreign(h home.Home) string {
	said := pathOf(h, f.Name) + " was written by someone else meanwhile and stays as it is"
	if _, err := os.Lstat(f.backup(h)); err == nil {
		said += "; its old content is in " + f.backup(h)
	}
	if f.InPlace {
		said += "; compare the two, it may have been half written"
	}
	return said
}

// valid checks everything that a path is made of.
func (j *journal) valid() error {
	switch {
	case j.Version != formatVersion:
		return fmt.Errorf("format %d", j.Version)
	case j.Kind != kindMigrate && j.Kind != kindRollback:
		return fmt.Errorf("kind %q", j.Kind)
	case !isName(j.Manifest, "manifest.", ".json"):
		return fmt.Errorf("manifest %q", j.Manifest)
	case len(j.Files) == 0:
		return errors.New("no files")
	}
	seen := map[string]bool{}
	for _, f := range j.Files {
		if !isFile(f.Name) || seen[f.Name] || !isName(f.Backup, f.Name+".", "") || !isName(f.Temp, ".", tempNew) {
			return fmt.Errorf("file %q, staged as %q, backup %q", f.Name, f.Temp, f.Backup)
		}
		seen[f.Name] = true
	}
	return nil
}

// isFile reports whether a name is that of a file that migrations change.
func isFile(name string) bool {
	return slices.Contains([]string{FileConfig, FileEnv, FileSoul}, name)
}

// isName reports whether s is a file name, no path, with a beginning and an end.
func isName(s, prefix, suffix string) bool {
	return s == filepath.Base(s) && len(s) > len(prefix)+len(suffix) && strings.HasPrefix(s, prefix) && strings.HasSuffix(s, suffix)
}

// How staged files are called: beside the file that is replaced, by migrating and by undoing.
const (
	tempNew = ".migrate-new"
	tempOld = ".migrate-old"
)

// tempName has the profile in it: profiles may share a file through links.
func tempName(h home.Home, target, suffix string) string {
	return "." + filepath.Base(target) + "." + h.Profile + suffix
}

func journalPath(h home.Home) string { return filepath.Join(h.State(), "migrate.journal") }

// readJournal returns nil if no commit is under way.
func readJournal(h home.Home) (*journal, error) {
	data, st, err := atomicfile.Read(journalPath(h))
	if err != nil || !st.Exists {
		return nil, unreadable(journalPath(h), err)
	}
	var j journal
	err = decodeStrict(data, &j)
	if err == nil {
		err = j.valid()
	}
	if err != nil {
		return nil, &Refusal{
			Kind: ErrAmbiguous, File: journalPath(h), Msg: fmt.Sprintf("not a journal of format %d: %v", formatVersion, err),
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
	if err := m.clearTemp(besides(path)); err != nil {
		return err
	}
	return m.Files.Write(path, append(data, '\n'), atomicfile.Options{Temp: filepath.Base(besides(path))})
}

// besides is where a file of ours is staged.
func besides(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

// clearTemp removes what an earlier run may have left under a staging name of ours.
func (m Migrator) clearTemp(path string) error {
	if _, err := os.Lstat(path); err != nil {
		return nil //nolint:nilerr // nothing to clear; the staging that follows reports the rest
	}
	return m.Files.Remove(path)
}

// leftovers returns the staged files that a run left which ended before it wrote its journal.
func leftovers(h home.Home) []string {
	var out []string
	for _, name := range []string{FileConfig, FileEnv, FileSoul} {
		target, err := atomicfile.Resolve(pathOf(h, name))
		if err != nil {
			continue // what leads nowhere has nothing beside it
		}
		for _, suffix := range []string{tempNew, tempOld} {
			path := filepath.Join(filepath.Dir(target), tempName(h, target, suffix))
			if _, err := os.Lstat(path); err == nil {
				out = append(out, path)
			}
		}
	}
	return out
}

// recover settles a commit that was interrupted and says what it did; "" = there was none.
func (m Migrator) recover(h home.Home) (string, error) {
	if err := m.clearTemp(besides(journalPath(h))); err != nil {
		return "", err
	}
	j, err := readJournal(h)
	if err != nil {
		return "", err
	}
	if j == nil {
		var errs []error
		for _, path := range leftovers(h) {
			errs = append(errs, m.clearTemp(path))
		}
		return "", errors.Join(errs...)
	}
	for _, f := range j.Files {
		if err := m.replaceable(h, f.Name, nil); err != nil {
			return "", err
		}
	}
	stands, foreign, err := m.stands(h, j)
	if err != nil {
		return "", err
	}
	said := "finished"
	if stands {
		err = m.finish(h, j)
	} else {
		said = "undone"
		foreign, err = m.undo(h, j, len(j.Files))
	}
	return strings.Join(append([]string{fmt.Sprintf("an interrupted run (%s) was %s", j.what(), said)}, foreign...), "; "), err
}

// stands reports whether a commit reached its last file, which is config.yaml; foreign names
// the file if someone else has written it since.
func (m Migrator) stands(h home.Home, j *journal) (ok bool, foreign []string, err error) {
	last := j.Files[len(j.Files)-1]
	data, st, err := atomicfile.Read(pathOf(h, last.Name))
	switch {
	case err != nil || !st.Exists:
		return false, nil, err
	case st.SHA256 == last.After:
		return true, nil, nil
	case st.SHA256 == last.Before || last.Name != FileConfig || j.From == j.To || m.ours(h, last, st.Path, data):
		return false, nil, nil
	}
	// Its stamp tells which of the two contents they started from: a file that says it is new
	// belongs to a new .env, and what we took back there would never be done again.
	doc, err := yamlspan.Parse(data)
	if err != nil {
		return false, nil, nil //nolint:nilerr // tells nothing
	}
	version, state := stampOf(doc)
	return state != stampBad && version == j.To, []string{last.foreign(h)}, nil
}
