// SPDX-License-Identifier: MIT

package images

import _ "embed"

// LauncherPath is where the image has its desktop launcher.
const LauncherPath = "/usr/local/lib/hermes-sandbox/desktop-launcher"

//go:embed image/desktop/usr/local/lib/hermes-sandbox/desktop-launcher
var launcher string

// Launcher returns the script that starts a desktop, the same that the image has, for hosts
// and images without it. Its head says what it needs.
func Launcher() string { return launcher }
