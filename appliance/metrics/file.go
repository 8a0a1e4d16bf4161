// SPDX-License-Identifier: MIT

package metrics

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// schema is that of the file. It grows when a field changes its meaning.
const schema = 1

// Row is the sum of one counter with certain values on one day.
type Row struct {
	Day   string            `json:"day"` // UTC, YYYY-MM-DD
	Name  string            `json:"name"`
	Dims  map[string]string `json:"dims"`
	Value int64             `json:"value"`
}

type document struct {
	Schema   int   `json:"schema"`
	Counters []Row `json:"counters"`
}

// Path is the file of a home. It is not upstream's database (telemetry/shared_metrics): what is
// in that one, upstream packs and sends as its own for who agreed to that, and these are the
// numbers of another program. Upstream does not know this file.
func Path(home string) string { return filepath.Join(home, "metrics", "counters.json") }

// Read returns the sums of a home, by day, name and values; none if nothing was counted yet. It
// may be called while another process counts: it sees a whole file, a few seconds old.
func Read(home string) ([]Row, error) {
	path := Path(home)
	data, st, err := atomicfile.Read(path)
	if err != nil || !st.Exists {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("%s: %w: move it away and counting starts anew", path, err)
	}
	if d.Schema != schema {
		return nil, fmt.Errorf("%s: schema %d; this version knows %d: update, or move the file away", path, d.Schema, schema)
	}
	return d.Counters, nil
}

// save adds a batch to the sums in the file. It reads the file each time, so that another
// process that counts for the same profile is not forgotten.
func (s *Store) save(batch map[key]int64) error {
	old, err := Read(s.o.Home)
	if err != nil {
		return err
	}
	oldest := s.o.Now().UTC().AddDate(0, 0, -keepDays).Format(time.DateOnly)
	sums := map[key]int64{}
	for _, r := range old {
		if r.Day < oldest {
			continue
		}
		text, err := json.Marshal(r.Dims)
		if err != nil {
			return err
		}
		sums[key{r.Day, r.Name, string(text)}] += r.Value
	}
	for k, n := range batch {
		if _, known := sums[k]; known || len(sums) < maxRows {
			sums[k] += n
		}
	}
	d := document{Schema: schema, Counters: make([]Row, 0, len(sums))}
	for _, k := range slices.SortedFunc(maps.Keys(sums), key.compare) {
		r := Row{Day: k.day, Name: k.name, Value: sums[k]}
		if err := json.Unmarshal([]byte(k.dims), &r.Dims); err != nil {
			return err
		}
		d.Counters = append(d.Counters, r)
	}
	data, err := json.MarshalIndent(d, "", " ")
	if err != nil {
		return err
	}
	path := Path(s.o.Home)
	if err := s.o.Files.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err // a home that is gone is not made again
	}
	return s.o.Files.Write(path, append(data, '\n'), atomicfile.Options{Mode: 0o600})
}

func (k key) compare(o key) int {
	return cmp.Or(cmp.Compare(k.day, o.day), cmp.Compare(k.name, o.name), cmp.Compare(k.dims, o.dims))
}
