// SPDX-License-Identifier: MIT

package migrate_test

import "io/fs"

func identity(fs.FileInfo) (id string, many bool) { return "", false }
