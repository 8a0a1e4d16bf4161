// SPDX-License-Identifier: MIT

package checkpoint_test

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkTake is a checkpoint of 2,000 files of 4 KiB: when nothing has changed, and when one
// file has.
func BenchmarkTake(b *testing.B) {
	for _, changed := range []bool{false, true} {
		b.Run(fmt.Sprintf("changed=%v", changed), func(b *testing.B) {
			s := setup(b)
			files := map[string]string{}
			for i := range 2000 {
				files[fmt.Sprintf("%d/%d", i/100, i)] = strings.Repeat(fmt.Sprintf("%04d", i), 1024)
			}
			s.write(b, files)
			s.take(b)
			for i := 0; b.Loop(); i++ {
				if changed {
					s.write(b, map[string]string{"0/0": fmt.Sprint(i)})
				}
				if c := s.take(b); (c.Hash != "") != changed {
					b.Fatalf("got %+v", c)
				}
			}
		})
	}
}
