// SPDX-License-Identifier: MIT

package appliance

import (
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestOldToolNames: a model that learnt upstream's older names of tools reaches them, and one that
// makes up a name is told which there are.
func TestOldToolNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"todo": `\"total\":0`, "process": `\"processes\":[]`, " todo_list": `\"total\":0`, "nonesuch": `unknown tool`,
	} {
		srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
			if body := string(r.Body); strings.Contains(body, `"role":"tool"`) {
				if !strings.Contains(body, want) {
					t.Errorf("%s: the model was told %s", name, body[strings.Index(body, `"role":"tool"`):])
				}
				return modelserver.Reply{Text: "done"}
			}
			return modelserver.Reply{Calls: []modelserver.Call{call("c", name, map[string]any{"action": "list"})}}
		})
		e, _, log := world(t, map[string]string{
			"home/config.yaml": "_config_version: 50\nmodel: {provider: custom, default: m, base_url: " + srv.URL + "/v1}\n",
		})
		if got := turnOf(t, runtimeOf(t, e, log), "", "go"); got != "done" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
