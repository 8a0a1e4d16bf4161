// SPDX-License-Identifier: MIT

package childenv

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/hermes-appliance/hermes-appliance/migrate/yamlspan"
)

// envName is what a variable that a manifest declares may be called.
var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// declared notes for every name that a manifest declares, and that no manifest before it
// did, whether it is a secret. One that is no platform's by its place must say that it is.
func (m *Manifests) declared(src []byte, platform bool, secret map[string]bool) error {
	if len(src) > maxManifest {
		return fmt.Errorf("larger than %d bytes", maxManifest)
	}
	doc, err := yamlspan.Parse(src)
	if err != nil {
		return err
	}
	root := doc.Root()
	if root == nil || root.Kind != yamlspan.Mapping {
		return errors.New("not a mapping")
	}
	y := anchors{}
	y.collect(root)
	if kind, _ := yamlspan.Resolve(y.get(root, "kind")).(string); !platform && kind != "platform" {
		return nil
	}
	for _, key := range []string{"requires_env", "optional_env"} {
		list := y.get(root, key)
		if list == nil || list.Kind != yamlspan.Sequence {
			continue
		}
		for _, item := range list.Items {
			m.entry(y, item, secret)
		}
	}
	return nil
}

// entry notes one entry of a manifest; what is no name is passed over (M10).
func (m *Manifests) entry(y anchors, item *yamlspan.Node, secret map[string]bool) {
	item = y.follow(item)
	node := item
	if item != nil && item.Kind == yamlspan.Mapping {
		node = y.get(item, "name")
	}
	name, _ := yamlspan.Resolve(node).(string)
	if !envName.MatchString(name) || m.policy.Core(name) { // M3
		return
	}
	name = fold(name)
	if _, ok := secret[name]; ok {
		return
	}
	password, given := yamlspan.Resolve(y.get(item, "password")).(bool)
	is := truth(y.get(item, "password")) || truth(y.get(item, "secret")) ||
		m.policy.Secretive(name) && (!given || password)
	secret[name] = is
}

// truth reports whether a value counts as true. A word does: who writes one means it.
func truth(n *yamlspan.Node) bool {
	switch v := yamlspan.Resolve(n).(type) {
	case bool:
		return v
	case string:
		return v != ""
	case int64:
		return v != 0
	}
	return false
}

// anchors are the nodes of a document that others stand for.
type anchors map[string]*yamlspan.Node

func (y anchors) collect(n *yamlspan.Node) {
	if n == nil {
		return
	}
	if n.Anchor != "" {
		y[n.Anchor] = n
	}
	for _, p := range n.Pairs {
		y.collect(p.Key)
		y.collect(p.Value)
	}
	for _, i := range n.Items {
		y.collect(i)
	}
}

// follow returns the node that an alias stands for.
func (y anchors) follow(n *yamlspan.Node) *yamlspan.Node {
	if n != nil && n.Kind == yamlspan.Alias {
		return y[n.Value]
	}
	return n
}

// get returns the value of a key, the last one if it is given twice, and one that is merged
// in if it is not given; nil for none.
func (y anchors) get(n *yamlspan.Node, key string) *yamlspan.Node {
	var found *yamlspan.Node
	for _, p := range n.Pairs {
		k := p.Key
		switch {
		case k == nil || k.Kind != yamlspan.Scalar:
		case k.Value == key:
			found = y.follow(p.Value)
		case k.Value == "<<" && k.Style == yamlspan.Plain && found == nil:
			if from := y.follow(p.Value); from != nil && from != n {
				found = y.merged(from, key)
			}
		}
	}
	return found
}

func (y anchors) merged(from *yamlspan.Node, key string) *yamlspan.Node {
	for _, p := range from.Pairs {
		if p.Key != nil && p.Key.Kind == yamlspan.Scalar && p.Key.Value == key {
			return y.follow(p.Value)
		}
	}
	return nil
}
