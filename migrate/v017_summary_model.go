// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func v017() Step {
	return Step{
		To: 17, ID: "17-summary-model",
		Title: "compression.summary_model, _provider and _base_url move to auxiliary.compression",
		Detail: "The three keys are removed. A value that says something (not empty, and for the provider not auto) becomes " +
			"auxiliary.compression.model, .provider or .base_url, unless a value that says something is there.",
		LegacyKey: true,
		run: func(w *work) error {
			for _, key := range []string{"model", "provider", "base_url"} {
				if err := v017One(w, key); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func v017One(w *work, key string) error {
	const reason = "the summary model is an auxiliary task now"
	from := []string{"compression", "summary_" + key}
	target := []string{"auxiliary", "compression", key}
	old := w.get(from...)
	if !old.ok {
		return nil
	}
	if old.node.Kind != yamlspan.Scalar {
		w.advise("config.yaml line %d: %s is no single value; it was left", old.line, yamlspan.PathString(from))
		return nil
	}
	text := strings.TrimSpace(old.node.Value)
	says := !old.isNull() && text != "" && (key != "provider" || text != "auto")
	now := w.get(target...)
	current, isText := now.text()
	set := now.ok && !now.isNull() && (!isText || current != "" && (key != "provider" || current != "auto"))
	if says && !set {
		if !w.sectionFree(target[:2], "the summary "+key) {
			return nil
		}
		scalar := w.lifted(old)
		if _, ok := old.text(); !ok {
			scalar = yamlspan.Quote(fmt.Sprint(text))
		}
		if err := w.put(reason, scalar, target...); err != nil {
			return err
		}
		if key == "base_url" {
			w.plan.Changes[len(w.plan.Changes)-1].New = "(an address)"
		}
	}
	if err := w.remove(reason, from...); err != nil {
		return err
	}
	if key == "base_url" {
		w.plan.Changes[len(w.plan.Changes)-1].Old = "(an address)"
	}
	return nil
}
