// SPDX-License-Identifier: MIT

package files

const openFlags = 0
