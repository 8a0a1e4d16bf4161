// SPDX-License-Identifier: MIT

package cli

import "github.com/spf13/cobra"

func newImages(st *state) *cobra.Command {
	return group(st, "images", "Publish and verify the sandbox image",
		"Publishes exactly the image that was proven, verifies what is published, and moves the tag that people follow.",
		"  hermes-appliance images verify nousresearch/hermes-sandbox:desktop --key cosign.pub",
		newImagesPublish(st), newImagesVerify(st), newImagesRollback(st), newImagesSBOM(st), newImagesKeygen(st))
}
