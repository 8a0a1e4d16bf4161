// SPDX-License-Identifier: MIT

// Package repotest holds the repository to its own rules: who imports whom, package docs,
// licence headers, the dependency ledger, what only certain packages may call. It has no
// code of its own beside tests and is never imported.
package repotest
