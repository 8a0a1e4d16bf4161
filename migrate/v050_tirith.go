// SPDX-License-Identifier: MIT

package migrate

func v050() Step {
	return Step{
		To: 50, ID: "50-tirith",
		Title: "security.tirith_enabled, tirith_path, tirith_timeout and tirith_fail_open are removed",
		Detail: "The scanner became a plugin with settings of its own; nothing reads these keys any more, so they are removed whatever " +
			"they hold. The rest of security stays. Some branch builds still read them: the backup has their values.",
		LegacyKey: true,
		AnyStamp:  true,
		run: func(w *work) error {
			closed := w.get("security", "tirith_fail_open").v == false && w.get("security", "tirith_fail_open").ok
			for _, key := range []string{"tirith_enabled", "tirith_path", "tirith_timeout", "tirith_fail_open"} {
				if !w.get("security", key).ok {
					continue
				}
				if err := w.remove("nothing reads it any more; the scanner is a plugin", "security", key); err != nil {
					return err
				}
			}
			if closed {
				w.advise("security.tirith_fail_open was false: commands were refused when the scanner failed. If you rely on that, set it up in the scanner's plugin")
			}
			return nil
		},
	}
}
