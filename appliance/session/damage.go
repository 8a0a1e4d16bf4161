// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mostFindings is how many words of SQLite are kept of one check.
const mostFindings = 20

var (
	treeFinding  = regexp.MustCompile(`^Tree (\d+)\b`)
	indexFinding = regexp.MustCompile(`(?:missing from|of entries in|entry in|differ from|of) index (\S+)$`)
	ftsFinding   = regexp.MustCompile(`^fts5: |inverted index|\bFTS5 table `)
	rowFinding   = regexp.MustCompile(`^(NULL value in|non-\w+ value in|NUMERIC value in|TEXT value in|CHECK constraint failed|datatype mismatch)|^Page \d+: never used`)
)

// diagnose checks the whole file and says whose pages are damaged. It only reads.
func (s *Store) diagnose(ctx context.Context, q queryer) (Damage, error) {
	d := Damage{Seen: s.opts.Now()}
	owners, err := roots(ctx, q)
	if err != nil {
		return d.add(Structural, "sqlite_master", err), ignoreCorrupt(err)
	}
	rows, err := q.QueryContext(ctx, "PRAGMA integrity_check("+strconv.Itoa(mostFindings)+")")
	if err == nil {
		err = each(rows, func() error {
			var lines string
			err := rows.Scan(&lines)
			for line := range strings.Lines(lines) {
				d = d.judge(strings.TrimSpace(line), owners)
			}
			return err
		})
	}
	// A check that breaks off has named the pages before; if not, only the code is left.
	if corrupt(err) && d.Class == Whole {
		class := Structural
		if code(err) == codeCorruptVtab {
			class = SearchOnly
		}
		d = d.add(class, "", err)
	}
	return d, ignoreCorrupt(err)
}

func ignoreCorrupt(err error) error {
	if corrupt(err) {
		return nil
	}
	return err
}

// owner is whose pages hang below a root page.
type owner struct{ kind, name, table string }

// roots reads the root page of each table and index.
func roots(ctx context.Context, q queryer) (map[int]owner, error) {
	rows, err := q.QueryContext(ctx, "SELECT rootpage, type, name, tbl_name FROM sqlite_master WHERE rootpage > 0")
	if err != nil {
		return nil, err
	}
	out := map[int]owner{1: {"table", "sqlite_master", "sqlite_master"}}
	err = each(rows, func() error {
		var root int
		var o owner
		err := rows.Scan(&root, &o.kind, &o.name, &o.table)
		out[root] = o
		return err
	})
	return out, err
}

// derived holds for tables that FTS5 keeps.
func derived(table string) bool {
	return strings.HasPrefix(table, wordIndex)
}

// judge adds a line of a check.
func (d Damage) judge(line string, owners map[int]owner) Damage {
	line = strings.TrimSuffix(line, "\n")
	switch {
	case line == "" || line == "ok" || strings.HasPrefix(line, "***") || rowFinding.MatchString(line):
		return d // pages that nobody uses and values of an odd type are no damage
	case treeFinding.MatchString(line):
		n, _ := strconv.Atoi(treeFinding.FindStringSubmatch(line)[1]) //nolint:errcheck // digits
		switch o, ok := owners[n]; {
		case !ok:
			return d.add(Structural, "", errors.New(line))
		case derived(o.table):
			return d.add(SearchOnly, o.name, errors.New(line))
		case o.kind == "index":
			return d.add(IndexOnly, o.name, errors.New(line))
		default:
			return d.add(Structural, o.name, errors.New(line))
		}
	case ftsFinding.MatchString(line):
		return d.add(SearchOnly, "", errors.New(line))
	case indexFinding.MatchString(line):
		name := indexFinding.FindStringSubmatch(line)[1]
		if derived(name) || strings.HasPrefix(name, "sqlite_autoindex_"+wordIndex) {
			return d.add(SearchOnly, name, errors.New(line))
		}
		return d.add(IndexOnly, name, errors.New(line))
	}
	return d.add(Structural, "", errors.New(line))
}

// add adds one finding; the class is the gravest of all.
func (d Damage) add(class Class, part string, finding error) Damage {
	order := []Class{Whole, SearchOnly, IndexOnly, Structural}
	if slices.Index(order, class) > slices.Index(order, d.Class) {
		d.Class = class
	}
	if !slices.Contains(d.Parts, part) {
		d.Parts = append(d.Parts, part)
	}
	if len(d.Findings) < mostFindings {
		d.Findings = append(d.Findings, finding.Error())
	}
	return d
}

// contain answers damage that an operation met: it repairs what is derived, or ends writing. It
// reports whether the operation may be tried again.
func (s *Store) contain(ctx context.Context, met error) bool {
	if s.writable() != nil {
		return false
	}
	d := Damage{Seen: s.opts.Now()}
	if searchOnly(met) {
		d = d.add(SearchOnly, "", met)
	} else {
		var err error
		if d, err = s.diagnose(ctx, s.r); err != nil {
			s.note("a check after an error could not be finished: " + err.Error())
			return false
		}
		if d.Class == Whole { // what was met is not there any more, or a reader does not see it
			return false
		}
	}
	return s.treat(ctx, d)
}

// treat repairs damage of derived parts and ends writing for any other.
func (s *Store) treat(ctx context.Context, d Damage) bool {
	var err error
	switch d.Class {
	case Whole:
		return true
	case SearchOnly:
		err = s.transact(ctx, func(tx *sql.Tx) error { return detach(ctx, tx) })
	case IndexOnly:
		err = s.reindex(ctx, d.Parts)
	default:
		err = errors.New(strings.Join(d.Findings[:1], ""))
	}
	if err == nil {
		s.opts.Log.Warn("damage repaired from the messages", "path", s.path, "class", string(d.Class), "parts", d.Parts)
		s.know(func(h *Health) {
			h.Repaired = &d
			if d.Class == SearchOnly {
				h.Index = Index{}
			}
		})
		s.kickOff()
		return true
	}
	if d.Class != Structural && !corrupt(err) {
		s.note(fmt.Sprintf("damage of class %q could not be repaired yet: %v", d.Class, err))
		return false
	}
	s.know(func(h *Health) { h.Damage = &d })
	_ = s.halt(fmt.Errorf("%w: %s is damaged (%s: %s); stop every program that uses it and restore a backup, or recover with: sqlite3 %s .recover", //nolint:errcheck // kept for Health
		ErrReadOnly, s.path, d.Class, d.Findings[0], s.path))
	s.kickOff() // for the backup
	return false
}

// reindex makes ordinary indexes anew.
func (s *Store) reindex(ctx context.Context, names []string) error {
	for _, name := range names {
		err := s.transact(ctx, func(tx *sql.Tx) error {
			return run(ctx, tx, "REINDEX "+quoted(name))
		})
		if err == nil {
			continue
		}
		var stmt sql.NullString
		if rerr := s.r.QueryRowContext(ctx, "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?", name).Scan(&stmt); rerr != nil || !stmt.Valid || !corrupt(err) {
			return err // the index of a key has no statement to make it again
		}
		if err := s.forget(ctx, name); err != nil {
			return err
		}
		if err := s.transact(ctx, func(tx *sql.Tx) error { return run(ctx, tx, stmt.String) }); err != nil {
			return err
		}
	}
	return nil
}

// quoted is a name as SQL writes it.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// unreadable turns the error of an Open that met damage into one that says so. The file is left
// exactly as it is.
func (s *Store) unreadable(err error) error {
	if !corrupt(err) {
		return fmt.Errorf("%s: %w", s.path, fault(err))
	}
	return &DamagedError{Path: s.path, Err: err}
}
