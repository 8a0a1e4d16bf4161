// SPDX-License-Identifier: MIT

package atomicfile

import (
	"fmt"
	"io/fs"
	"time"
)

// Settle is the age a file must have before its stamp vouches for its content: within the
// resolution of the coarsest file systems in use a second write does not show.
const Settle = 2 * time.Second

// Stamp changes whenever the content of a file does, once [Settle] has passed since its
// [ChangeTime], unless somebody turns back the clock.
func Stamp(info fs.FileInfo) string {
	return fmt.Sprintf("%d %d %s", info.ModTime().UnixNano(), info.Size(), identity(info))
}
