// SPDX-License-Identifier: MIT

package session

func child([]string) error { return nil }
