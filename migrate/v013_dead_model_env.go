// SPDX-License-Identifier: MIT

package migrate

import "github.com/hermes-appliance/hermes-appliance/appliance/dotenv"

func v013() Step {
	return Step{
		To: 13, ID: "13-dead-model-env",
		Title:  ".env: LLM_MODEL and OPENAI_MODEL lose their values",
		Detail: "An old setup wizard wrote these two and nothing reads them since config.yaml decides the model. Their values are emptied, the lines and all others stay. On a file without a version nothing happens: the names are generic.",
		run: func(w *work) error {
			if w.env == nil {
				return w.envErr
			}
			env, hit, err := w.env.Empty(func(a dotenv.Assignment) bool {
				return (a.Key == "LLM_MODEL" || a.Key == "OPENAI_MODEL") && a.Value != ""
			})
			if err != nil {
				return err
			}
			w.env = env
			for _, a := range hit {
				w.record(Change{
					File: FileEnv, Path: []string{a.Key}, Action: Changed, Old: "(a value)", New: "(empty)", Line: a.Line,
					Reason: "nothing reads it; config.yaml decides the model",
				})
			}
			return nil
		},
	}
}
