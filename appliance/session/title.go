// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// Where a title comes from. A later one replaces an earlier one of a lower rank only; a user's
// stays unless the user changes it.
const (
	TitleDerived = "derived" // from the first message
	TitleModel   = "llm"
	TitleUser    = "user"
)

// rank is the authority of a stored title; one of before there was a source counts as the
// user's.
func rank(source string, stored bool) int {
	switch source {
	case TitleUser:
		return 2
	case TitleModel:
		return 1
	case "":
		if stored {
			return 2
		}
	}
	return 0
}

var numbered = regexp.MustCompile(`^(.*?) #(\d+)$`)

// SetTitle names a session; "" takes the title away. source is one of the Title constants, ""
// is the user's. An automatic title that would replace one of the same or a higher rank is
// silently not set, and one that another session has gets a number: "x #2". A user's title
// that another session has is a [*TitleTakenError], unless that one is an earlier part of the
// same conversation, which then gives it up. A user's title of more than [MaxTitle] characters
// is an error, an automatic one is cut.
func (s *Store) SetTitle(ctx context.Context, id, title, source string) error {
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error { return setTitle(ctx, tx, id, title, source) })
}

func setTitle(ctx context.Context, tx *sql.Tx, id, title, source string) error {
	user := source == "" || source == TitleUser
	if title = cleanTitle(title); user {
		source = TitleUser
		if n := utf8.RuneCountInString(title); n > MaxTitle {
			return fmt.Errorf("title has %d characters, at most %d", n, MaxTitle)
		}
	} else {
		title = cut(title, MaxTitle)
	}
	var old, oldSource string
	err := tx.QueryRowContext(ctx, "SELECT title, title_source FROM sessions WHERE id = ?", id).Scan(str(&old), str(&oldSource))
	if err != nil {
		return none(err, fmt.Errorf("%s: %w", id, ErrNoSession))
	}
	if !user && old != "" && rank(oldSource, true) >= rank(source, false) || old == title && oldSource == source {
		return nil
	}
	if title == "" {
		return changeIn(ctx, tx, id, "title = NULL, title_source = NULL")
	}
	var other string
	switch err := tx.QueryRowContext(ctx, "SELECT id FROM sessions WHERE title = ? AND id <> ? LIMIT 1", title, id).Scan(&other); {
	case err != nil && none(err, nil) != nil:
		return err
	case other == "":
	case !user:
		if title, err = freeTitle(ctx, tx, title); err != nil {
			return err
		}
	default:
		earlier, err := isEarlier(ctx, tx, other, id)
		if err != nil {
			return err
		}
		if !earlier {
			return &TitleTakenError{title, other}
		}
		if err := changeIn(ctx, tx, other, "title = NULL, title_source = NULL"); err != nil {
			return err
		}
	}
	return changeIn(ctx, tx, id, "title = ?, title_source = ?", title, source)
}

// numberless is a title without its number, and short enough for one.
func numberless(title string) string {
	if m := numbered.FindStringSubmatch(title); m != nil {
		title = m[1]
	}
	const room = MaxTitle - len(" #1000000")
	if r := []rune(title); len(r) > room {
		title = string(r[:room])
	}
	return title
}

// freeTitle is a title with a number that no session has: "x #2". Of thousands of chats that
// begin with the same words none takes longer than the first: it looks up one title at a time.
func freeTitle(ctx context.Context, q queryer, title string) (string, error) {
	base := numberless(title)
	at := func(n int) string { return base + " #" + strconv.Itoa(n) }
	taken := func(n int) (yes bool, err error) {
		err = q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM sessions WHERE title = ?)", at(n)).Scan(&yes)
		return yes, err
	}
	low, high := 1, 2
	for {
		yes, err := taken(high)
		if err != nil {
			return "", err
		}
		if !yes {
			break
		}
		low, high = high, high*2
	}
	for high-low > 1 { // low is taken, high is free
		mid := (low + high) / 2
		yes, err := taken(mid)
		switch {
		case err != nil:
			return "", err
		case yes:
			low = mid
		default:
			high = mid
		}
	}
	return at(high), nil
}

// nextTitle is a title with the number after the highest that a session has: "x", "x #2",
// "x #3".
func nextTitle(ctx context.Context, q queryer, title string) (string, error) {
	base := numberless(title)
	rows, err := q.QueryContext(ctx, "SELECT title FROM sessions WHERE title = ? OR title > ? AND title < ?", base, base+" #", base+" $") // "$" follows "#"
	if err != nil {
		return "", err
	}
	most := 0
	err = each(rows, func() error {
		var t string
		err := rows.Scan(&t)
		most = max(most, 1)
		if m := numbered.FindStringSubmatch(t); m != nil && m[1] == base {
			if n, err := strconv.Atoi(m[2]); err == nil && n < 1_000_000 {
				most = max(most, n)
			}
		}
		return err
	})
	if most == 0 || err != nil {
		return base, err
	}
	return base + " #" + strconv.Itoa(most+1), nil
}

// NextTitle is the title for the next part of a conversation that has this one: "x #2".
func (s *Store) NextTitle(ctx context.Context, title string) (string, error) {
	next, err := nextTitle(ctx, s.r, cleanTitle(title))
	return next, fault(err)
}

// ByTitle finds the session of a title; of several parts of one conversation ("x", "x #2") the
// newest.
func (s *Store) ByTitle(ctx context.Context, title string) (Session, error) {
	title = cleanTitle(title)
	var id string
	err := s.r.QueryRowContext(ctx, `SELECT id FROM sessions WHERE title = ?1 OR title LIKE ?2 ESCAPE '\' ORDER BY started_at DESC LIMIT 1`,
		title, like(title + " #")[1:]).Scan(&id)
	if err != nil {
		return Session{}, none(err, fmt.Errorf("title %q: %w", title, ErrNoSession))
	}
	return s.Get(ctx, id)
}
