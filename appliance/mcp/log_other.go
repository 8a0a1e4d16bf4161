// SPDX-License-Identifier: MIT

//go:build !unix

package mcp

// noFollow: what was opened is compared with what was looked at.
const noFollow = 0
