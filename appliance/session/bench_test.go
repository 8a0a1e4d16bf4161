// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// BenchmarkAppend writes one message of a turn: what every step costs.
func BenchmarkAppend(b *testing.B) {
	for _, sync := range []string{"full", "normal"} {
		b.Run(sync, func(b *testing.B) {
			s := openStore(b, dbPath(b), Options{Synchronous: sync})
			turn := begin(b, s, create(b, s, Session{}).ID)
			m := Message{Role: "assistant", Content: strings.Repeat("a typical sentence of an answer. ", 10)}
			for b.Loop() {
				if _, err := turn.Append(b.Context(), m); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			turn.Close(context.Background())
		})
	}
}

// BenchmarkAppendMany has many turns write at the same time; it reports the time of one message.
func BenchmarkAppendMany(b *testing.B) {
	for _, turns := range []int{1, 16, 256} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			s := openStore(b, dbPath(b), Options{Synchronous: "full"})
			m := Message{Role: "assistant", Content: strings.Repeat("a typical sentence of an answer. ", 10)}
			work := make(chan struct{})
			var wg sync.WaitGroup
			for range turns {
				turn := begin(b, s, create(b, s, Session{}).ID)
				wg.Go(func() {
					defer turn.Close(context.Background())
					for range work {
						if _, err := turn.Append(context.Background(), m); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
		})
	}
}

// seeded makes a file with n messages of about 300 bytes in sessions of per.
func seeded(b *testing.B, n, per int) (path, last string) {
	b.Helper()
	path = dbPath(b)
	if err := openStore(b, path, Options{}).Close(); err != nil {
		b.Fatal(err)
	}
	db := rawDB(b, path)
	must(b, db, "PRAGMA synchronous = off", "BEGIN",
		fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) INSERT INTO sessions (id, source, started_at, last_activity_at, title) SELECT 's' || i, 'telegram', i, i, 'title ' || i FROM n", n/per),
		fmt.Sprintf(`WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < %d) INSERT INTO messages (session_id, role, content, timestamp)
			SELECT 's' || (i / %d), CASE i %% 2 WHEN 0 THEN 'user' ELSE 'assistant' END, 'common words of message ' || i || ' with rare' || (i %% 997) || ' and some more text that makes it as long as what people and models write to each other when they talk about their work, their files, their plans and the weather of the day, over and over again, until the limit is reached' , i FROM n`, n, per), "COMMIT")
	db.Close()
	return path, fmt.Sprintf("s%d", n/per-1)
}

func BenchmarkHistory1000(b *testing.B) {
	path, id := seeded(b, 1000, 1000)
	s := openStore(b, path, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if ms, err := s.History(b.Context(), id); err != nil || len(ms) != 1000 {
			b.Fatal(len(ms), err)
		}
	}
}

func BenchmarkBegin1000(b *testing.B) {
	path, id := seeded(b, 1000, 1000)
	s := openStore(b, path, Options{})
	for b.Loop() {
		turn, err := s.Begin(b.Context(), id, "t")
		if err != nil {
			b.Fatal(err)
		}
		if err := turn.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearch100k(b *testing.B) {
	path, _ := seeded(b, 100_000, 50)
	s := openStore(b, path, Options{})
	for name, text := range map[string]string{"rare": "rare500", "two": "rare500 weather", "common": "common", "phrase": `"plans and the weather"`, "trigram": "are500", "missing": "nowhere"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Search(b.Context(), Query{Text: text}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Search(b.Context(), Query{Text: "rare500", Roles: []string{"tool", "user", "assistant"}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			if l, err := s.List(b.Context(), Filter{}); err != nil || len(l) != 20 {
				b.Fatal(err)
			}
		}
	})
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Check(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkOpen opens an existing file, until it can be used.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path, _ := seeded(b, n, 50)
			openStore(b, path, Options{}).Close() // the check of the day
			for b.Loop() {
				s, err := Open(b.Context(), path, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				s.Close()
				b.StartTimer()
			}
		})
	}
}
