// SPDX-License-Identifier: MIT

// Package nix holds the tests of the Nix files beside it, which need no nixpkgs, and keeps the
// JSON files they read current: unit.json, legacy.json and vendor.json come from the program.
package nix
