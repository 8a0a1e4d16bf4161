// SPDX-License-Identifier: MIT

package config

import "testing"

func TestMultiplex(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		user, admin, env string
		want             bool
	}{
		"default":                 {"", "", "", false},
		"key":                     {"gateway: {multiplex_profiles: true}\n", "", "", true},
		"key as text":             {"gateway: {multiplex_profiles: \"on\"}\n", "", "", true},
		"alias alone":             {"multiplex_profiles: true\n", "", "", true},
		"alias wins over the key": {"multiplex_profiles: false\ngateway: {multiplex_profiles: true}\n", "", "", false},
		"administrator":           {"gateway: {multiplex_profiles: true}\n", "gateway: {multiplex_profiles: false}\n", "", false},
		"environment on":          {"", "", "YES", true},
		"environment off":         {"gateway: {multiplex_profiles: true}\n", "", "0", false},
		"environment blank":       {"gateway: {multiplex_profiles: true}\n", "", " ", true},
		"environment no word":     {"gateway: {multiplex_profiles: true}\n", "", "maybe", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Parse(File{"config.yaml", []byte(row.user)}, File{"admin.yaml", []byte(row.admin)})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Multiplex(func(string) (string, bool) { return row.env, row.env != "" })
			if err != nil || got != row.want {
				t.Errorf("got %v, %v, want %v", got, err, row.want)
			}
		})
	}
	c, err := Parse(File{"config.yaml", []byte("gateway: {multiplex_profiles: [1]}\n")}, File{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Multiplex(nil); err == nil {
		t.Error("a list is neither yes nor no")
	}
}
