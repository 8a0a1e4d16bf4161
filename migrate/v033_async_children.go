// SPDX-License-Identifier: MIT

package migrate

import (
	"math"
	"strconv"
	"strings"
)

func v033() Step {
	return Step{
		To: 33, ID: "33-async-children",
		Title: "delegation.max_async_children is folded into max_concurrent_children",
		Detail: "The key is removed. If it was above 3 and above max_concurrent_children (3 if absent), that takes its number, " +
			"so that nobody loses room.",
		LegacyKey: true,
		run: func(w *work) error {
			const reason = "one limit counts for both kinds of children now"
			old := w.get("delegation", "max_async_children")
			if !old.ok {
				return nil
			}
			target := []string{"delegation", "max_concurrent_children"}
			current, ok := v033Int(w.get(target...))
			if !ok {
				current = 3
			}
			if n, ok := v033Int(old); ok && n > 3 && n > current {
				if err := w.put(reason, strconv.FormatInt(n, 10), target...); err != nil {
					return err
				}
			}
			return w.remove(reason, "delegation", "max_async_children")
		},
	}
}

// v033Int reads a number the way upstream's int() does.
func v033Int(v value) (int64, bool) {
	switch x := v.v.(type) {
	case int64:
		return x, v.ok
	case float64:
		if math.Abs(x) > math.MaxInt32 || math.IsNaN(x) {
			return 0, false // no limit that anyone could mean, and undefined as a whole number
		}
		return int64(x), v.ok
	case bool:
		if x {
			return 1, v.ok
		}
		return 0, v.ok
	case string:
		n, err := strconv.ParseInt(strings.TrimSpace(x), 10, 64)
		return n, v.ok && err == nil
	}
	return 0, false
}
