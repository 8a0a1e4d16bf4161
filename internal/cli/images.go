// SPDX-License-Identifier: MIT

package cli

import "github.com/spf13/cobra"

func newImages(st *state) *cobra.Command {
	return group(st, "images", "Build, prove, publish and verify the sandbox image",
		"Builds the image that tools run in, proves that it works, publishes exactly what was proven, and verifies what is\n"+
			"published.",
		"  hermes-appliance images build --browser debian --cua standin\n"+
			"  hermes-appliance images verify nousresearch/hermes-sandbox:desktop --key cosign.pub",
		newImagesBuild(st), newImagesSmoke(st), newImagesInspect(st), newImagesDiff(st), newImagesLock(st),
		newImagesPublish(st), newImagesVerify(st), newImagesRollback(st), newImagesSBOM(st), newImagesKeygen(st))
}
