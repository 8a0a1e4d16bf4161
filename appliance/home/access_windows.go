// SPDX-License-Identifier: MIT

package home

// access leaves it to the write to find out: access lists have no simple question.
func access(string, bool) string { return "" }

func isNotDir(error) bool { return false }
