// SPDX-License-Identifier: MIT

package appliance

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// TestPromptOrder: the parts of a real turn's system prompt are all there, in their order, and
// stay byte for byte in the session's next turn, whatever was written in between.
func TestPromptOrder(t *testing.T) {
	t.Parallel()
	srv := modelserver.NewFunc(t, func(modelserver.Request) modelserver.Reply { return modelserver.Reply{Text: "ok"} })
	project := t.TempDir()
	testkit.WriteTree(t, project, map[string]string{"AGENTS.md": "PART-PROJECT"})
	files := map[string]string{
		"home/config.yaml": "_config_version: 50\nmodel: {provider: custom, default: m, base_url: " + srv.URL + "/v1}\nterminal: {cwd: '" + project + "'}\n" +
			"agent: {system_prompt: PART-CONFIG}\nauxiliary: {title_generation: {enabled: false}}\n",
		"home/SOUL.md": "PART-SOUL", "home/memories/MEMORY.md": "PART-MEMORY", "home/memories/USER.md": "PART-USER",
		"home/skills/ops/deploy/SKILL.md": "---\nname: deploy\ndescription: PART-SKILL\n---\nx\n",
	}
	e, launch, log := world(t, files)
	rt := runtimeOf(t, e, log)
	tenant, err := rt.Tenant("")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(session string, sets []string) string {
		turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "api-server", Session: session, Toolsets: sets, Overlay: "PART-CLIENT", Input: model.Text(model.User, "hi")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := turn.Result(t.Context()); err != nil {
			t.Fatal(err)
		}
		return turn.Session()
	}
	session := ask("", nil)
	testkit.WriteTree(t, launch.Dir, map[string]string{"SOUL.md": "other", "memories/MEMORY.md": "other", "skills/ops/more/SKILL.md": "---\nname: more\ndescription: d\n---\nx\n"})
	testkit.WriteTree(t, project, map[string]string{"AGENTS.md": "other"})
	ask(session, nil)
	ask("", []string{"web"})
	var prompts, tools []string
	for _, r := range srv.Requests() {
		var body struct {
			Messages []struct{ Role, Content string }
			Tools    json.RawMessage
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			t.Fatal(err)
		}
		prompts, tools = append(prompts, body.Messages[0].Content), append(tools, string(body.Tools))
	}
	if len(prompts) != 3 || prompts[0] != prompts[1] || tools[0] != tools[1] {
		t.Fatalf("the second turn of the session has another beginning: %d requests", len(prompts))
	}
	order := []string{"PART-SOUL", "with memory, save", "session_search before", "skill with skill_manage", "PART-MEMORY", "PART-USER", "PART-SKILL", "PART-PROJECT", "Conversation started", "reached through an API", "PART-CONFIG", "PART-CLIENT"}
	var at []int
	for _, part := range order {
		i := strings.Index(prompts[0], part)
		if i < 0 || strings.Count(prompts[0], part) != 1 {
			t.Errorf("%s is there %d times", part, strings.Count(prompts[0], part))
		}
		at = append(at, i)
	}
	if !slices.IsSorted(at) {
		t.Errorf("the order is %v:\n%s", at, prompts[0])
	}
	for _, part := range order[1:4] {
		if strings.Contains(prompts[2], part) {
			t.Errorf("without the tool the prompt has %q", part)
		}
	}
	if filepath.Separator == '/' && !strings.Contains(prompts[2], "other") {
		t.Error("a new session does not see what is new")
	}
}
