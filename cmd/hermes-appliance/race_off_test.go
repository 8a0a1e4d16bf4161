// SPDX-License-Identifier: MIT

//go:build !race

package main

// raceDetector says that this is a build with -race.
const raceDetector = false
