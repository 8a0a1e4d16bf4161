// SPDX-License-Identifier: MIT

package config

import (
	"math/rand"
	"reflect"
)

// randomSettings is a section of keys that no program knows, with clashes of kinds among them.
type randomSettings map[string]any

func (randomSettings) Generate(r *rand.Rand, _ int) reflect.Value {
	return reflect.ValueOf(randomSettings(randomSection(r, 3)))
}

func randomSection(r *rand.Rand, depth int) map[string]any {
	keys := []string{"a", "b", "c.d", "on", "12", "é", "x y", "null"}
	out := map[string]any{}
	for range r.Intn(5) {
		out[keys[r.Intn(len(keys))]] = randomValue(r, depth)
	}
	return out
}

func randomValue(r *rand.Rand, depth int) any {
	texts := []string{"", "x", "no", "1.5", "0x10", "a: b", "#c", "- d", "*e", "l1\nl2", "\"q\"", "~", "ü", "{", "tab\there", " lead", "trail "}
	switch n := r.Intn(10); {
	case n < 4 && depth > 0:
		return randomSection(r, depth-1)
	case n == 4:
		return []any{texts[r.Intn(len(texts))], float64(r.Intn(9)), map[string]any{"k": texts[r.Intn(len(texts))]}}
	case n == 5:
		return r.Intn(2) == 0
	case n == 6:
		return nil
	case n == 7:
		return float64(r.Intn(1000)) / 8
	}
	return texts[r.Intn(len(texts))]
}
