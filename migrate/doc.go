// SPDX-License-Identifier: MIT

// Package migrate brings a Hermes home from one config version to the next without losing
// a byte of it: it plans in memory, proves that the result means exactly what the plan says,
// and commits config.yaml, .env and the version stamp together, journalled, with backups
// that [Rollback] returns to.
//
// It never reads the config through a loader or a schema (it must work on files the loader
// rejects), never writes a default into a file, never rewrites text it did not plan to, and
// never touches a home that is managed, newer or unreadable: those are [*Refusal]s.
//
// A step, once released, is frozen: it keeps its own literals and imports nothing that can
// change. The rules come from the migrations spec; H# and O# are the public reports there.
package migrate
