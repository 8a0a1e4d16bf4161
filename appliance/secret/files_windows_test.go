// SPDX-License-Identifier: MIT

package secret

import "os"

func pipe(path string) error { return os.Mkdir(path, 0o700) }

func alive(int) bool { return false }
