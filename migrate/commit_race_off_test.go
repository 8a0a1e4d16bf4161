// SPDX-License-Identifier: MIT

//go:build !race

package migrate_test

const stride = 1
