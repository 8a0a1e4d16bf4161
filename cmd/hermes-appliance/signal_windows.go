// SPDX-License-Identifier: MIT

package main

import "os"

// notifyDrain has nothing to listen to: Windows has no such signal.
func notifyDrain(chan<- os.Signal) {}
