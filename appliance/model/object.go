// SPDX-License-Identifier: MIT

package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// object is a JSON object on its way to the wire: its members keep the order in which they
// were set, so that the same request makes the same bytes. The zero value is {}.
type object struct {
	names  []string
	values []json.RawMessage
	err    error // of the first value that is no JSON
}

// set writes a value, in the place of an earlier one of that name. Text keeps its bytes:
// nothing is escaped for HTML. A value that is JSON already is checked.
func (o *object) set(name string, value any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		o.fail(name, err)
		return
	}
	o.put(name, bytes.TrimRight(b.Bytes(), "\n"))
}

func (o *object) fail(name string, err error) {
	if o.err == nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
}

func (o *object) put(name string, value json.RawMessage) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.values[i] = value
		return
	}
	o.names, o.values = append(o.names, name), append(o.values, value)
}

// nest writes another object as a value, and list several. They must not change any more.
func (o *object) nest(name string, value *object) {
	if value.err != nil {
		o.fail(name, value.err)
		return
	}
	o.put(name, value.bytes())
}

func (o *object) list(name string, values []*object) {
	raw := make([][]byte, len(values))
	for i, v := range values {
		if v.err != nil {
			o.fail(fmt.Sprintf("%s[%d]", name, i), v.err)
			return
		}
		raw[i] = v.bytes()
	}
	o.put(name, slices.Concat([]byte("["), bytes.Join(raw, []byte(",")), []byte("]")))
}

// extend sets fields that we do not know, by name; null removes one where the caller says so.
func (o *object) extend(fields map[string]json.RawMessage, nullRemoves bool) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if nullRemoves && string(bytes.TrimSpace(fields[name])) == "null" {
			o.remove(name)
			continue
		}
		o.set(name, fields[name])
	}
}

func (o *object) remove(name string) {
	if i := slices.Index(o.names, name); i >= 0 {
		o.names, o.values = slices.Delete(o.names, i, i+1), slices.Delete(o.values, i, i+1)
	}
}

// MarshalJSON returns the object, or why it cannot be written.
func (o *object) MarshalJSON() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	return o.bytes(), nil
}

func (o *object) bytes() []byte {
	size := 2
	for i, name := range o.names {
		size += len(name) + len(o.values[i]) + len(`"":,`)
	}
	b := make([]byte, 0, size)
	b = append(b, '{')
	for i, name := range o.names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, quote(name)...)
		b = append(b, ':')
		b = append(b, o.values[i]...)
	}
	return append(b, '}')
}
