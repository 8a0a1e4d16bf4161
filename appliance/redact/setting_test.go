// SPDX-License-Identifier: MIT

package redact

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestValues(t *testing.T) {
	t.Parallel()
	for config, want := range map[string][]string{
		`{"api_key": "plain-words-a"}`: {"plain-words-a"},
		`{"secret": 12345678}`:         {"12345678"},
		`{"headers": {"Authorization": "Bearer plain-words-b", "X-A": 1}}`:                                         {"Bearer plain-words-b", "plain-words-b"},
		`{"Authorization": "Basic dXNlcjpwbGFpbi13b3Jkcy1j"}`:                                                      {"Basic dXNlcjpwbGFpbi13b3Jkcy1j", "dXNlcjpwbGFpbi13b3Jkcy1j", "plain-words-c"},
		`{"args": ["--token", "plain-words-d", "-e", "MY_TOKEN=plain-words-e", "--api-key=plain-words-f", "a=b"]}`: {"plain-words-d", "plain-words-e", "plain-words-f"},
		`{"url": "https://me:plain-words-g@example.com/x?key=plain-words-h&page=2"}`:                               {"plain-words-g", "plain-words-h"},
		`{"list": [{"token": "plain-words-i"}], "passwords": ["plain-words-j"]}`:                                   {"plain-words-i", "plain-words-j"},
		`{"token": "${TOKEN}", "key": "op://vault/item", "secret": "", "password": true, "api_key": null}`:         nil,
		`{"ssh_key": "~/.ssh/id", "client_key": "/etc/keys/client.pem", "secret": "/Zm9v/YmFy"}`:                   {"/Zm9v/YmFy"},
		`{"ssh_password": "/etc/x.y"}`: {"/etc/x.y"},
		`{"key_env": "OPENAI_API_KEY", "max_tokens": 12345678, "url": "https://example.com/a=b", "prompt": "x = y"}`: nil,
	} {
		var v any
		if err := json.Unmarshal([]byte(config), &v); err != nil {
			t.Fatal(err)
		}
		if n, ok := v.(map[string]any)["secret"].(float64); ok {
			v.(map[string]any)["secret"] = int64(n)
		}
		got := Values("", v)
		slices.Sort(got)
		slices.Sort(want)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", config, got, want)
		}
		shown, err := json.Marshal(Setting("", v))
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range want {
			if strings.Contains(string(shown), secret) {
				t.Errorf("%s: shown as %s", config, shown)
			}
		}
	}
}
