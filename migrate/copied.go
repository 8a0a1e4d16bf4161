// SPDX-License-Identifier: MIT

package migrate

// CopiedDefault is a value that old templates and wizards wrote into homes, and that a step
// removes because nobody chose it.
type CopiedDefault struct {
	Step  int      // the version whose step removes it
	File  string   // [FileConfig] or [FileEnv]
	Path  []string // key, or the name of the variable
	Value any      // text or an int
}

// CopiedDefaults lists the values that steps 47, 48 and 49 remove: who generates a home's
// config from another place must not bring them back.
func CopiedDefaults() []CopiedDefault {
	out := []CopiedDefault{{47, FileConfig, []string{"compression", "threshold_tokens"}, 256000}}
	for _, key := range []string{"docker_image", "modal_image", "daytona_image", "singularity_image"} {
		for _, image := range v048Images() {
			if key == "singularity_image" {
				image = "docker://" + image
			}
			out = append(out, CopiedDefault{48, FileConfig, []string{"terminal", key}, image})
		}
	}
	return append(out,
		CopiedDefault{49, FileConfig, []string{"terminal", "vercel_runtime"}, "node24"},
		CopiedDefault{49, FileEnv, []string{"TERMINAL_VERCEL_RUNTIME"}, "node24"})
}
