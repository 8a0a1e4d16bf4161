// SPDX-License-Identifier: MIT

package cli

import "github.com/spf13/cobra"

func newImages(st *state) *cobra.Command {
	return group(st, "images", "Build, prove and inspect the sandbox image",
		"Builds the image that tools run in, proves that it works, and shows what is in it.",
		"  hermes-appliance images build --browser debian --cua standin",
		newImagesBuild(st), newImagesSmoke(st), newImagesInspect(st), newImagesDiff(st), newImagesLock(st))
}
