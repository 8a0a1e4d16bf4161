// SPDX-License-Identifier: MIT

//go:build race

package migrate_test

// stride is how many operations the dearest sweeps go on at a time. They run one thing after
// the other: the race detector finds nothing there and makes them ten times slower. Without it
// they stop at every single operation.
const stride = 4
