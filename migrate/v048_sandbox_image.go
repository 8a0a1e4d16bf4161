// SPDX-License-Identifier: MIT

package migrate

import (
	"slices"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
)

func v048() Step {
	return Step{
		To: 48, ID: "48-sandbox-image",
		Title: "terminal.docker_image, modal_image, daytona_image and singularity_image lose the copied old defaults",
		Detail: "Each key is removed only while it holds, byte for byte, one of the two plain images that were defaults before the " +
			"desktop image; for singularity_image only the docker:// spelling counts. It is never rewritten: a written image is a pin, and a " +
			"pin replaces an existing sandbox without asking. Every other image, also the new default, is your own and stays.",
		run: runV048,
	}
}

// v048Images are the two images that upstream shipped as plain defaults.
func v048Images() []string {
	return []string{"nikolaik/python-nodejs:python3.11-nodejs20", "nikolaik/python-nodejs:python3.14-nodejs22"}
}

func runV048(w *work) error {
	unset := false
	for _, key := range []string{"docker_image", "modal_image", "daytona_image", "singularity_image"} {
		prefix := ""
		if key == "singularity_image" {
			prefix = "docker://"
		}
		v := w.get("terminal", key)
		if !v.ok {
			continue
		}
		image, isText := v.text()
		switch {
		case v.isNull():
			continue // says nothing: counts as not set
		case !isText || !slices.ContainsFunc(v048Images(), func(s string) bool { return prefix+s == image }):
			w.keep(v, "your own image: a pin", "terminal", key)
			continue
		}
		if err := w.remove("the copied old default; without it the sandbox follows the current default", "terminal", key); err != nil {
			return err
		}
		unset = unset || key == "docker_image"
	}
	if unset {
		w.advise("terminal.docker_image follows the default now; a sandbox that exists stays on its image until you decide: set terminal.docker_image to the new image to switch, or to its present one to keep it")
	}
	v048Mirrors(w)
	return nil
}

// v048Mirrors reports images in .env: they were set on purpose there, so they stay and count
// as pins.
func v048Mirrors(w *work) {
	if w.env == nil {
		return
	}
	for _, a := range w.env.All() {
		if slices.Contains([]string{"TERMINAL_DOCKER_IMAGE", "TERMINAL_MODAL_IMAGE", "TERMINAL_DAYTONA_IMAGE", "TERMINAL_SINGULARITY_IMAGE"}, a.Key) && v048Legacy(a) {
			w.advise(".env line %d: %s holds an old default image; it was written there by a command, so it stays and pins the image. Remove the line to follow the default", a.Line, a.Key)
		}
	}
}

func v048Legacy(a dotenv.Assignment) bool {
	return slices.ContainsFunc(v048Images(), func(s string) bool { return a.Value == s || a.Value == "docker://"+s })
}
