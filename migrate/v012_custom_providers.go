// SPDX-License-Identifier: MIT

package migrate

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

func v012() Step {
	return Step{
		To: 12, ID: "12-custom-providers",
		Title: "the list custom_providers becomes entries of the mapping providers",
		Detail: "Each entry with a base_url, url or api moves with its text and comments. Its key is its name in lower case " +
			"with hyphens, or the host of its address; a key that is taken gets a number. base_url or url becomes api, model becomes " +
			"default_model, api_mode becomes transport; an api_key that says no-key, no-key-required or nothing is dropped. Existing " +
			"providers are never changed. An entry that cannot be converted stays in the list, which readers still understand.",
		LegacyKey: true,
		run:       runV012,
	}
}

func runV012(w *work) error {
	list := w.get("custom_providers")
	if !list.ok || list.node.Kind != yamlspan.Sequence || len(list.node.Items) == 0 {
		return nil
	}
	providers := w.get("providers")
	if providers.ok && !providers.isNull() && !providers.isMap() {
		w.advise("config.yaml line %d: providers is a %s, not a section of keys; custom_providers stays as it is", providers.line, providers.node.Kind)
		return nil
	}
	taken := map[string]bool{}
	for _, k := range providers.keys() {
		taken[k] = true
	}
	var lifts []yamlspan.Lift
	for i, item := range list.node.Items {
		lift, why := v012Lift(item, taken, len(lifts))
		if why != "" {
			w.advise("custom_providers, entry %d: %s; it stays in the list", i+1, why)
			continue
		}
		lift.Index = i
		taken[lift.Key] = true
		lifts = append(lifts, lift)
	}
	if len(lifts) == 0 {
		return nil
	}
	if providers.isMap() && providers.node.Style == yamlspan.Flow && len(providers.node.Pairs) > 0 && list.node.Style == yamlspan.Block {
		w.advise("config.yaml line %d: providers is written in brackets; write its entries on lines of their own, then custom_providers can move there", providers.line)
		return nil
	}
	return v012Move(w, list, providers, lifts)
}

// v012Move carries the lifts out in the document and in the model.
func v012Move(w *work, list, providers value, lifts []yamlspan.Lift) error {
	doc, err := w.doc.ListToMap("custom_providers", "providers", lifts)
	if err != nil {
		return err
	}
	from := w.model.At("custom_providers")
	items := from.Values
	gone := map[int]bool{}
	missing := !providers.ok
	entries := &yamlspan.Tree{Kind: yamlspan.Mapping}
	for _, l := range lifts {
		gone[l.Index] = true
		item := items[l.Index].Clone()
		for _, key := range l.Drop {
			if err := item.Remove(key); err != nil {
				return err
			}
		}
		for old, name := range l.Rename {
			if err := item.Rename(name, old); err != nil {
				return err
			}
		}
		entries.Put(item, l.Key)
	}
	switch {
	case missing && list.node.Style == yamlspan.Block && list.node.Items[lifts[0].Index].Style == yamlspan.Block:
		w.model.PutBefore("custom_providers", entries, "providers")
	case missing:
		w.model.Put(entries, "providers")
	default:
		for i, k := range entries.Keys {
			w.model.Put(entries.Values[i], "providers", k.Text())
		}
	}
	from.Values = nil
	for i, item := range items {
		if !gone[i] {
			from.Values = append(from.Values, item)
		}
	}
	if len(from.Values) == 0 {
		if err := w.model.Remove("custom_providers"); err != nil {
			return err
		}
	}
	if providers.ok && (providers.isNull() || len(providers.node.Pairs) == 0) {
		w.touched = append(w.touched, []string{"providers"})
	}
	for _, l := range lifts {
		w.done(doc, Change{
			Action: Moved, Path: []string{"custom_providers"}, Line: list.line,
			Old: fmt.Sprintf("entry %d", l.Index+1), New: yamlspan.PathString([]string{"providers", l.Key}),
			Reason: "providers are a mapping now; readers of new versions look there first",
		})
	}
	return nil
}

// v012Lift says how an entry moves, or why it cannot.
func v012Lift(item *yamlspan.Node, taken map[string]bool, nth int) (l yamlspan.Lift, why string) {
	if item.Kind != yamlspan.Mapping {
		return l, "it is no mapping"
	}
	text := map[string]string{}
	for _, p := range item.Pairs {
		if _, dup := text[p.Key.Value]; dup {
			return l, "the key " + p.Key.Value + " is given twice"
		}
		text[p.Key.Value] = ""
		if s, ok := yamlspan.Resolve(p.Value).(string); ok {
			text[p.Key.Value] = s
		}
	}
	address, key := v012Address(text)
	if address == "" {
		return l, "it has no base_url that is an address"
	}
	l.Key = v012Key(text["name"], address, taken, nth)
	l.Rename = map[string]string{}
	for _, r := range [][2]string{{key, "api"}, {"model", "default_model"}, {"api_mode", "transport"}} {
		old, name := r[0], r[1]
		_, has := text[old]
		if _, blocked := text[name]; has && blocked && old != name {
			return l, "it has both " + old + " and " + name
		}
		if has && old != name {
			l.Rename[old] = name
		}
	}
	if v, has := text["api_key"]; has {
		for _, p := range item.Pairs {
			plain := p.Value.Kind == yamlspan.Scalar && (v == "no-key" || v == "no-key-required" || yamlspan.Resolve(p.Value) == "")
			if p.Key.Value == "api_key" && plain {
				l.Drop = append(l.Drop, "api_key")
			}
		}
	}
	return l, ""
}

// v012Address finds the entry's address: the first of the three keys that holds one.
func v012Address(text map[string]string) (address, key string) {
	for _, key := range []string{"base_url", "url", "api"} {
		v := strings.TrimSpace(text[key])
		if v == "" {
			continue
		}
		if regexp.MustCompile(`\{[^}]+\}`).MatchString(v) {
			return v, key // a placeholder, known only at run time
		}
		if u, err := url.Parse(v); err == nil && u.Scheme != "" && u.Host != "" {
			return v, key
		}
	}
	return "", ""
}

// v012Key makes the key of an entry as upstream does, so that names people refer to agree.
func v012Key(name, address string, taken map[string]bool, nth int) string {
	key := strings.NewReplacer(" ", "-", "(", "", ")", "").Replace(strings.ToLower(strings.TrimSpace(name)))
	key = strings.Trim(regexp.MustCompile(`-{2,}`).ReplaceAllString(key, "-"), "-")
	if key == "" {
		host := "endpoint"
		if u, err := url.Parse(address); err == nil && u.Hostname() != "" {
			host = u.Hostname()
		}
		key = strings.ReplaceAll(host, ".", "-")
	}
	base := key
	for n := nth; taken[key]; n++ {
		key = fmt.Sprintf("%s-%d", base, n)
	}
	return key
}
