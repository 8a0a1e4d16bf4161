// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"strconv"
)

func v029() Step {
	return Step{
		To: 29, ID: "29-write-approval",
		Title:     "memory.write_mode and skills.write_mode become write_approval",
		Detail:    "\"approve\" (in any case) becomes true, everything else false. A write_approval: true that is there already stays: the old key must not weaken it. Nothing is written where write_mode is absent.",
		LegacyKey: true,
		run: func(w *work) error {
			for _, section := range []string{"memory", "skills"} {
				old := w.get(section, "write_mode")
				if !old.ok {
					continue
				}
				approve := old.word("approve")
				reason := fmt.Sprintf("write_mode %s means write_approval %t", old.shown(), approve)
				if v := w.get(section, "write_approval"); v.ok && v.v == true && !approve {
					w.keep(v, "your own value: it wins over write_mode", section, "write_approval")
				} else if err := w.put(reason, strconv.FormatBool(approve), section, "write_approval"); err != nil {
					return err
				}
				if err := w.remove(reason, section, "write_mode"); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
