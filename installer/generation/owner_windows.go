// SPDX-License-Identifier: MIT

package generation

import "io/fs"

// foreignOwner: there is no user 0 who could ask.
func foreignOwner(fs.FileInfo) bool { return true }
