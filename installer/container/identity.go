// SPDX-License-Identifier: MIT

// Package container is what the gateway needs of its container beside an image: whom to run as,
// a home that this user can use, and a process 1 that passes signals on and reaps. It knows no
// engine and no Hermes config, runs no shell, changes nothing through a link, and never goes
// back to root once it has left it.
package container

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

// Default is the user and the group of the image, upstream's too.
const Default = 10000

// Environment variables that choose the user. The first of two names wins.
const (
	EnvUID       = "HERMES_UID"
	EnvGID       = "HERMES_GID"
	EnvPUID      = "PUID"
	EnvPGID      = "PGID"
	EnvAllowRoot = "HERMES_ALLOW_ROOT_GATEWAY"
)

// Nobody stands for an owner that is not known, because there is nothing to own.
const Nobody = -1

// Facts are what [Choose] decides by; [Look] gathers them.
type Facts struct {
	UID, GID         int    // of this process
	Home             string // for messages
	HomeUID, HomeGID int    // who owns the home; Nobody = it is not there
	SocketGID        int    // the group of an engine's socket that was mounted; Nobody = none
}

// Identity is whom the gateway runs as.
type Identity struct {
	UID, GID int
	Groups   []int  // supplementary groups, GID first; nil = those of this process stay
	Why      string // where UID comes from, for people
}

// ConfigError is a container that was started in a way that cannot work: starting it again as
// it is will not help.
type ConfigError struct {
	Problem string
	Fix     string // what to start it with
}

func (e *ConfigError) Error() string { return e.Problem + "\n" + e.Fix }

// ExitCode is [exitcode.Config].
func (e *ConfigError) ExitCode() exitcode.Code { return exitcode.Config }

// Choose decides whom the gateway runs as. Root becomes PUID and PGID, else the owner of the
// home, so that a volume that another image used keeps its owners, else [Default]; it stays root
// only where HERMES_ALLOW_ROOT_GATEWAY says so. Anybody else stays who he is, and an id asked
// for that he has not is a [*ConfigError] (H#32559: it was ignored), as is one that no user
// may have.
func Choose(f Facts, getenv func(string) string) (Identity, error) {
	uid, uidName, err := wanted(getenv, EnvUID, EnvPUID)
	if err != nil {
		return Identity{}, err
	}
	gid, gidName, err := wanted(getenv, EnvGID, EnvPGID)
	if err != nil {
		return Identity{}, err
	}
	if f.UID != 0 {
		return f.stay(uid, uidName, gid, gidName)
	}
	if allowed(getenv(EnvAllowRoot)) && uid == Nobody {
		return Identity{UID: 0, GID: f.GID, Why: EnvAllowRoot}, nil
	}
	id := Identity{UID: Default, GID: Default, Why: "the image's user"}
	switch {
	case uid != Nobody:
		id.UID, id.Why = uid, uidName
	case f.HomeUID > 0:
		id.UID, id.Why = f.HomeUID, "the owner of "+f.Home
		if f.HomeGID > 0 {
			id.GID = f.HomeGID
		}
	}
	if gid != Nobody {
		id.GID = gid
	}
	id.Groups = []int{id.GID}
	if f.SocketGID != Nobody && f.SocketGID != id.GID {
		id.Groups = append(id.Groups, f.SocketGID) // H#16703: it was lost with root's groups
	}
	return id, nil
}

// stay is the choice of somebody who cannot become anybody else.
func (f Facts) stay(uid int, uidName string, gid int, gidName string) (Identity, error) {
	for _, w := range []struct {
		name         string
		want, have   int
		what, option string
	}{{uidName, uid, f.UID, "user", fmt.Sprintf("--user %d:%d", uid, f.GID)}, {gidName, gid, f.GID, "group", fmt.Sprintf("--user %d:%d", f.UID, gid)}} {
		if w.want != Nobody && w.want != w.have {
			return Identity{}, &ConfigError{
				fmt.Sprintf("%s=%d, but the container was started as %s %d, who cannot become another", w.name, w.want, w.what, w.have),
				fmt.Sprintf("Start it as root, which then becomes that %s for good: --user 0:0 (compose: user: \"0:0\"); or directly with %s and without %s.", w.what, w.option, w.name),
			}
		}
	}
	return Identity{UID: f.UID, GID: f.GID, Why: "the container's user"}, nil
}

// wanted reads an id under its name or its other name; Nobody = none is set.
func wanted(getenv func(string) string, names ...string) (id int, name string, err error) {
	for _, name := range names {
		v := strings.TrimSpace(getenv(name))
		if v == "" {
			continue
		}
		id, err := strconv.ParseUint(v, 10, 32)
		if err != nil || id < 1 || id > 65534 {
			fix := "Give the id as id -u or id -g prints it."
			if v == "0" {
				fix = "To run as root, set " + EnvAllowRoot + "=1 and leave " + name + " out."
			}
			return Nobody, name, &ConfigError{fmt.Sprintf("%s=%s: expected a number from 1 to 65534", name, v), fix}
		}
		return int(id), name, nil
	}
	return Nobody, names[0], nil
}

// allowed reads a switch.
func allowed(v string) bool {
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "1", "true", "yes", "on":
		return true
	}
	return false
}
