// SPDX-License-Identifier: MIT

package migrate

import (
	"slices"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func v014() Step {
	return Step{
		To: 14, ID: "14-stt-model",
		Title: "stt.model moves below its provider",
		Detail: "stt.model becomes stt.<provider>.model (provider local if none is set). Below local only the names of local Whisper " +
			"models move, any other name is dropped: it was a cloud model's. A model that is set below the provider already wins.",
		LegacyKey: true,
		run: func(w *work) error {
			model := w.get("stt", "model")
			if !model.ok {
				return nil
			}
			provider, ok := w.get("stt", "provider").text()
			if !ok || provider == "" {
				provider = "local"
			}
			if provider == "local_command" {
				provider = "local"
			}
			target := []string{"stt", provider, "model"}
			name, isText := model.text()
			moves := provider != "local" || isText && slices.Contains(v014Local(), name)
			switch {
			case w.get(target...).ok || !moves:
			case model.node.Kind != yamlspan.Scalar:
				w.advise("config.yaml line %d: stt.model is no single value; it was left", model.line)
				return nil
			case !w.sectionFree(target[:2], "the speech model"):
				return nil
			default:
				if err := w.add("the model belongs to its provider", model.shown(), yamlspan.Value{Scalar: w.lifted(model)}, target...); err != nil {
					return err
				}
			}
			return w.remove("the model belongs to its provider", "stt", "model")
		},
	}
}

// v014Local are the models that the local engine knows.
func v014Local() []string {
	return []string{
		"tiny.en", "tiny", "base.en", "base", "small.en", "small", "medium.en", "medium", "large-v1", "large-v2", "large-v3",
		"large", "distil-large-v2", "distil-medium.en", "distil-small.en", "distil-large-v3", "distil-large-v3.5", "large-v3-turbo", "turbo",
	}
}
