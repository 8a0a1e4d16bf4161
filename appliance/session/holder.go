// SPDX-License-Identifier: MIT

package session

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// holder is who holds a lease, as it stands in the row: "pid=12:pidns=4026531836:start=99:role=gateway:turn=…".
// pid and pidns are upstream's; the start time tells a process from a later one with the same
// id, which in a container is the rule. Parts that are not known are missing.
type holder struct {
	pid   int
	ns    string // of the process id; "" = unknown
	start string // of the process; "" = unknown
	role  string
}

func newHolder(role string) holder {
	pid := os.Getpid()
	start, _ := startOf(pid)
	return holder{pid: pid, ns: pidNamespace(), start: start, role: label(role)}
}

// label is a text without what separates the parts of a holder.
func label(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == ':' || r == '=' {
			return '-'
		}
		return r
	}, s)
}

// named is the holder with a name for what it does.
func (h holder) named(turn string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pid=%d", h.pid)
	for _, p := range [][2]string{{"pidns", h.ns}, {"start", h.start}, {"role", h.role}, {"turn", label(turn)}} {
		if p[1] != "" {
			b.WriteString(":" + p[0] + "=" + p[1])
		}
	}
	return b.String()
}

// parseHolder reads a row; what is not understood leaves the parts empty.
func parseHolder(text string) holder {
	var h holder
	for part := range strings.SplitSeq(text, ":") {
		switch key, v, _ := strings.Cut(part, "="); key {
		case "pid":
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				h.pid = n
			}
		case "pidns":
			h.ns = v
		case "start":
			h.start = v
		case "role":
			h.role = v
		}
	}
	return h
}

// dead reports whether the process of a row is proved to be gone. In doubt it is not: a wrong
// no costs waiting for the lease to expire, a wrong yes would break into a running turn.
func (h holder) dead(row string) bool {
	o := parseHolder(row)
	mine := o.pid == h.pid && o.ns == h.ns && o.start == h.start
	if o.role != "" && o.role == h.role && !mine {
		return true // one process at a time has the role, and now it is this one
	}
	if o.pid == 0 || o.ns != h.ns || (namespaced && o.ns == "") {
		return false // of a place where the number means something else
	}
	if o.pid == h.pid {
		return !mine
	}
	start, gone := startOf(o.pid)
	return gone || o.start != "" && start != "" && o.start != start
}
