// SPDX-License-Identifier: MIT

package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/process"
)

// recordKind is what a pid file of a gateway calls it; upstream's too.
const recordKind = "hermes-gateway"

// Record names the process that runs a gateway, as gateway.pid has it (services spec §2.1).
type Record struct {
	PID       int      `json:"pid"`
	Kind      string   `json:"kind"`
	Argv      []string `json:"argv"`
	StartTime int64    `json:"start_time"` // see [process.StartTime]; 0 = unknown
	Home      string   `json:"hermes_home"`
}

// Self is the record of this process for a home.
func Self(h home.Home, argv []string) Record {
	r := Record{PID: os.Getpid(), Kind: recordKind, Argv: argv, Home: h.Dir}
	if start, err := process.StartTime(r.PID); err == nil {
		r.StartTime = start
	}
	return r
}

// pidFile is where a home's gateway says who it is.
func pidFile(h home.Home) string { return filepath.Join(h.Dir, "gateway.pid") }

// ReadRecord returns who gateway.pid of a home names; a bare number, as old versions wrote it,
// is a record with nothing else in it. The error wraps [fs.ErrNotExist] if there is no file.
func ReadRecord(h home.Home) (Record, error) {
	data, err := os.ReadFile(pidFile(h))
	if err != nil {
		return Record{}, err
	}
	text := strings.TrimSpace(string(data))
	if pid, err := strconv.Atoi(text); err == nil {
		return Record{PID: pid}, nil
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("%s: want a record of a process: %w", pidFile(h), err)
	}
	return r, nil
}

// Alive reports whether the process of a record still runs. A process that has the same pid
// and started at another time is another one; where start times cannot be told the pid decides.
func (r Record) Alive() bool {
	start, err := process.StartTime(r.PID)
	switch {
	case errors.Is(err, process.ErrNoProcess):
		return false
	case err != nil:
		return true
	}
	return r.StartTime == 0 || r.StartTime == start
}

// Same reports whether two records name one process.
func (r Record) Same(o Record) bool {
	return r.PID == o.PID && (r.StartTime == o.StartTime || r.StartTime == 0 || o.StartTime == 0)
}

// Running returns the process that runs the gateway of a home; ok is false if none does.
func Running(h home.Home) (r Record, ok bool, err error) {
	r, err = ReadRecord(h)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	return r, err == nil && r.PID > 0 && r.Alive(), err
}
