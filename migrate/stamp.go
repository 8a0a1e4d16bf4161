// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// stampKey is the top-level key that holds the config version.
const stampKey = "_config_version"

// start finds the version to start from and refuses what the ladder must not touch.
func (w *work) start(l Ladder, o Options) error {
	from, state := stampOf(w.doc)
	refuse := func(kind error, msg, fix string) error {
		v := w.get(stampKey)
		return &Refusal{Kind: kind, File: w.in.Name, Line: v.line, Path: []string{stampKey}, Msg: msg, Fix: fix}
	}
	shown := w.get(stampKey).shown()
	switch {
	case state == stampBad:
		return refuse(ErrBadStamp, fmt.Sprintf("%q is no version; expected a whole number from %d to %d", shown, Floor, l.Latest()),
			"set the number of the Hermes version that last wrote the file")
	case state == stampNone && o.Assume != 0:
		w.plan.From, w.plan.Assumed = o.Assume, true
	case state == stampNone && o.To != l.Latest():
		// Stamped half way, the next run would take the file for one with provenance.
		return refuse(ErrBadStamp, fmt.Sprintf("the file has no version, so it cannot stop at %d", o.To),
			"run without --to, or say with --assume-version which version the file had")
	case state == stampNone:
	case o.Assume != 0:
		return refuse(ErrBadStamp, fmt.Sprintf("the file says version %d; --assume-version is for a file without a version", from), "run without it")
	case from < Floor:
		return refuse(ErrBelowFloor, fmt.Sprintf("version %d is older than %d, the oldest this binary migrates", from, Floor),
			fmt.Sprintf("back up the file, compare it with a current template, then set %s: %d by hand", stampKey, Floor))
	case from > l.Latest():
		return refuse(ErrNewerStamp, fmt.Sprintf("version %d was written by a newer program; this binary knows up to %d", from, l.Latest()),
			"update hermes-appliance, or go back with the program that wrote it")
	default:
		w.plan.From = from
		w.plan.To = max(w.plan.To, from) // the stamp never goes back
	}
	return nil
}

type stampState uint8

const (
	stampNone stampState = iota
	stampBad
	stampOK
)

// stampOf reads the config version with upstream's leniency: a whole number, also as text
// or with a fraction that is cut off. Anything else that is there is bad, not missing.
func stampOf(doc *yamlspan.Doc) (int, stampState) {
	f, ok := doc.Find(stampKey)
	if !ok {
		return 0, stampNone
	}
	switch v := yamlspan.Resolve(f.Node).(type) {
	case int64:
		if v >= 0 && v <= math.MaxInt32 {
			return int(v), stampOK
		}
	case float64:
		if v >= 0 && v <= math.MaxInt32 {
			return int(v), stampOK
		}
	case string:
		if n, err := strconv.Atoi(strings.TrimSpace(v)); err == nil && n >= 0 && n <= math.MaxInt32 {
			return n, stampOK
		}
	}
	return 0, stampBad
}

// stamp writes the version, if it is not there already.
func (w *work) stamp(to int) error {
	from, state := stampOf(w.doc)
	if state == stampOK && from >= to {
		return nil
	}
	w.step = Step{ID: "stamp"}
	text := strconv.Itoa(to)
	var err error
	if state == stampNone {
		err = w.add("the file's config version", text, yamlspan.Value{Scalar: text}, stampKey)
	} else {
		err = w.set("the file's config version", text, stampKey)
	}
	if err != nil {
		return w.failed(err)
	}
	return nil
}
