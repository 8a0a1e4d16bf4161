// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/dotenv"
)

func v049() Step {
	return Step{
		To: 49, ID: "49-vercel-runtime",
		Title: "terminal.vercel_runtime node24 is unset, in config.yaml and in .env",
		Detail: "Template and setup wizard had copied node24; Vercel replaced runtimes by images. In config.yaml the key is removed only " +
			"while it is node24. In .env, whatever config.yaml says, each line that sets TERMINAL_VERCEL_RUNTIME to node24 is removed. node22, " +
			"python3.13 and every other value stay in both. terminal.vercel_image is not touched.",
		run: runV049,
	}
}

func runV049(w *work) error {
	const literal, key = "node24", "TERMINAL_VERCEL_RUNTIME"
	path := []string{"terminal", "vercel_runtime"}
	v := w.get(path...)
	text, isText := v.text()
	switch {
	case !v.ok || v.isNull() || isText && text == "":
	case text == literal:
		if err := w.remove("the copied old default; new sandboxes follow terminal.vercel_image", path...); err != nil {
			return err
		}
	default:
		w.keep(v, "your own runtime: it wins over terminal.vercel_image", path...)
	}
	if w.in.Getenv != nil && strings.TrimSpace(w.in.Getenv(key)) == literal {
		w.advise("the environment of this process sets %s=%s; a service started with it pins the old runtime. Take it out where it is set", key, literal)
	}
	if w.in.ConfigOnly {
		w.advise("on the home itself this step also removes %s=%s from .env", key, literal)
	}
	if w.env == nil {
		return w.envErr
	}
	return v049Env(w, key, literal)
}

// v049Env removes the lines of .env that set the literal, and reports those that set
// something else.
func v049Env(w *work, key, literal string) error {
	kept := 0
	for _, a := range w.env.All() {
		if a.Key == key && a.Value != "" && strings.TrimSpace(a.Value) != literal {
			kept++
			w.plan.Kept = append(w.plan.Kept, Pin{
				Step: w.step.To, ID: w.step.ID, File: FileEnv, Path: []string{key}, Value: "(another value)", Line: a.Line, Why: "your own runtime",
			})
		}
	}
	env, hit, err := w.env.Remove(func(a dotenv.Assignment) bool {
		return a.Key == key && strings.TrimSpace(a.Value) == literal
	})
	if err != nil {
		return err
	}
	for _, a := range hit {
		w.record(Change{
			File: FileEnv, Path: []string{key}, Action: Removed, Old: literal, Line: a.Line,
			Reason: "the setup wizard's copy of the old default",
		})
	}
	if kept > 0 && len(hit) > 0 {
		w.advise(".env sets %s several times; only the lines that say %s were removed, so another of them counts now", key, literal)
	}
	w.env = env
	return nil
}
