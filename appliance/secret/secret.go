// SPDX-License-Identifier: MIT

// Package secret knows which secrets each profile may read, where each of them came from,
// and how to fetch them from the vaults that a home is configured for. It never writes a
// file or the process environment, never hands one home's value to another, never logs a
// value or what a vault's command printed, and never starts a child with an environment it
// was not given.
//
// A [Store] holds the [Snapshot] of every home: what its sources supplied. A [Scope] is what
// one task may read: the home's .env, the source values that apply over it, grants and the
// administrator's .env. It travels in the context ([Bind], [From]) and is read through
// [Store.Get]. Rule ids in comments (S1, P3, N5 …) are those of the isolation spec.
//
// # Decisions where upstream leaves a gap
//
//   - A snapshot keeps what was supplied, and each scope decides again what applies over the
//     .env it reads. A value that lost to a line in .env comes back when that line goes, with
//     no vault asked. That holds within a turn for [Scope.Set], and from turn to turn else.
//   - A source that fails keeps the values of its last good fetch, name by name and only while
//     they are still bound to the same place; other sources are replaced (N5). A source that is
//     no longer configured, or says that an item is gone, keeps nothing.
//   - A home whose sources failed is tried again by later tasks, not before [Config.Retry] is
//     over. A .env that exists and cannot be read fails a hydration instead of looking like
//     one without bootstrap tokens.
//   - Values of .op.env are for sources only and are in no scope; see [Store.OpEnv].
//   - An alias (P4) follows the rules of the value it is an alias of: it beats a line in .env if
//     its source overrides, and never another source's value.
//   - A task that is routed and has no scope gets an error also in a host that is not
//     multiplexed: it would read the launch profile's secrets.
//   - An empty or blank value of a source is no value. An empty line in .env is one: it hides
//     the process's, and a source may fill it.
//   - Bootstrap names are protected while the source that declares them is enabled.
//   - A global name that a source supplies counts as supplied, not as applied.
//   - A .env that is a pipe, in UTF-32 or larger than 4 MiB counts as unreadable.
//   - Nothing is cached on disk and no CLI is installed: upstream's cache_ttl_seconds,
//     encrypted_cache and auto_install have no meaning here.
package secret

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
)

// Kind is where a value came from.
type Kind int

// The origins of a value.
const (
	DotEnv     Kind = iota // the home's .env
	OpEnv                  // the home's .op.env: bootstrap of a source, in no scope
	Sourced                // a secret source; Origin.Source names it
	Managed                // the administrator's .env
	Launch                 // the environment the process was started with
	Grant                  // an authorization that the launch home's config grants
	Credential             // a file that the service manager handed to the process
)

func (k Kind) String() string {
	switch k {
	case DotEnv:
		return "dotenv"
	case OpEnv:
		return "op-env"
	case Sourced:
		return "source"
	case Managed:
		return "managed"
	case Launch:
		return "launch-process"
	case Grant:
		return "grant"
	case Credential:
		return "credential"
	}
	return "kind " + strconv.Itoa(int(k))
}

// Origin says where a value came from and to which home it belongs.
type Origin struct {
	Kind   Kind
	Source string // the source's name; "" unless Kind is Sourced
	Home   string // home key of the scope it was read for; "" for a value of the process
}

// String returns "dotenv", "source:bitwarden", … for labels.
func (o Origin) String() string {
	if o.Kind == Sourced {
		return "source:" + o.Source
	}
	return o.Kind.String()
}

// Value is one secret with its origin.
type Value struct {
	Name   string
	Text   Text
	Origin Origin
}

type contextKey struct{}

// Bind returns a context whose task reads its secrets from sc. A nil sc takes away the scope
// of an outer binding: nothing is bound (R12).
func Bind(ctx context.Context, sc *Scope) context.Context {
	return context.WithValue(ctx, contextKey{}, sc)
}

// From returns the scope of a task, nil if none is bound.
func From(ctx context.Context) *Scope {
	sc, _ := ctx.Value(contextKey{}).(*Scope)
	return sc
}

// UnscopedError says that a task read a secret without the scope it must have. The value of
// the process is not used instead: it may be another profile's (S3, S4).
type UnscopedError struct {
	name  string
	where string
}

// unscoped notes the function that called the exported reader, two frames up.
func unscoped(name string) *UnscopedError {
	e := &UnscopedError{name: name, where: "unknown caller"}
	if _, file, line, ok := runtime.Caller(2); ok {
		e.where = fmt.Sprintf("%s:%d", file, line)
	}
	return e
}

// Error is for the person in the chat and names nothing internal.
func (*UnscopedError) Error() string {
	return "this task was not tied to a profile, so no credential was used; restart the gateway, and report it if it happens again"
}

// Note is for developers: which secret was read, and where. It does not belong in a chat.
func (e *UnscopedError) Note() string {
	return fmt.Sprintf("secret %q read with no scope bound: bind the profile's scope around this call (%s)", e.name, e.where)
}
