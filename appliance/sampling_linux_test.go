// SPDX-License-Identifier: MIT

package appliance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/mcp"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit/modelserver"
)

// asking is an MCP server over HTTP whose one tool asks the model and answers what it said.
func asking(t *testing.T) *httptest.Server {
	t.Helper()
	said := make(chan string, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
			Result json.RawMessage
			Error  json.RawMessage
		}
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		answer := func(result string) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}
		switch m.Method {
		case "initialize":
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"asking","version":"1"}}`)
		case "tools/list":
			answer(`{"tools":[{"name":"think","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"sampling/createMessage\",\"params\":{\"maxTokens\":7,\"systemPrompt\":\"sampled\",\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":\"ponder\"}}]}}\n\n")
			w.(http.Flusher).Flush()
			text, _ := json.Marshal(<-said)
			fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":%s}]}}\n\n", m.ID, text)
		case "":
			said <- string(m.Result) + string(m.Error)
			w.WriteHeader(http.StatusAccepted)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	return srv
}

// TestSampling: a server asks the model of the turn that waits for it, as far as its entry allows,
// and the session is charged; with no turn waiting it gets nothing.
func TestSampling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, limits, model, want string }{
		{"turn's model", "{}", "scripted", "a deep thought"},
		{"its own model", "{model: small, allowed_models: [small]}", "small", "a deep thought"},
		{"model not allowed", "{allowed_models: [small]}", "", "allowed_models"},
		{"off", "{enabled: false}", "", "does not support"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			peer := asking(t)
			srv := modelserver.NewFunc(t, func(r modelserver.Request) modelserver.Reply {
				body := string(r.Body)
				switch {
				case strings.Contains(body, `"content":"sampled"`):
					return modelserver.Reply{Text: "a deep thought", Usage: `{"prompt_tokens":11,"completion_tokens":7005,"total_tokens":7016}`}
				case strings.Contains(body, `"role":"tool"`):
					return modelserver.Reply{Text: "done"}
				}
				return modelserver.Reply{Calls: []modelserver.Call{call("c", "mcp__thinker__think", map[string]any{})}}
			})
			e, _, log := world(t, map[string]string{"home/config.yaml": "_config_version: 50\nmodel: {provider: custom, default: scripted, base_url: " + srv.URL + "/v1}\n" +
				"auxiliary: {title_generation: {enabled: false}}\nmcp_servers: {thinker: {url: '" + peer.URL + "', sampling: " + c.limits + "}}\n"})
			rt := runtimeOf(t, e, log)
			tenant, err := rt.Tenant("")
			if err != nil {
				t.Fatal(err)
			}
			turn, err := tenant.Ask(t.Context(), gateway.Ask{Source: "telegram", Input: model.Text(model.User, "go")})
			if err != nil {
				t.Fatal(err)
			}
			if res, err := turn.Result(t.Context()); err != nil || res.Text != "done" {
				t.Fatalf("%+v, %v", res, err)
			}
			var sampled, last string
			for _, r := range srv.Requests() {
				if last = string(r.Body); strings.Contains(last, `"content":"sampled"`) {
					sampled = last
				}
			}
			if !strings.Contains(last, c.want) {
				t.Errorf("the turn was told %s, want %s", last, c.want)
			}
			if (sampled != "") != (c.model != "") || sampled != "" && (!strings.Contains(sampled, `"model":"`+c.model+`"`) || !strings.Contains(sampled, "ponder") || strings.Contains(sampled, `"tools"`)) {
				t.Errorf("the model was asked: %s", sampled)
			}
			store, err := tenant.Sessions(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			spent, err := store.UsageByModel(t.Context(), turn.Session())
			if err != nil {
				t.Fatal(err)
			}
			charged := slices.ContainsFunc(spent, func(m session.ModelUsage) bool {
				return m.Task == auxSampling && m.Model == c.model && m.Output == 7005
			})
			if charged != (c.model != "") {
				t.Errorf("the session was charged %+v", spent)
			}
			if out, err := rt.sample(t.Context(), mcp.SampleRequest{Profile: string(tenant.key), Server: "thinker"}); err == nil || !strings.Contains(err.Error(), "only while a turn waits") {
				t.Errorf("with no turn waiting: %+v, %v", out, err)
			}
			if out, err := rt.sample(t.Context(), mcp.SampleRequest{Profile: "/nobody", Server: "thinker"}); err == nil {
				t.Errorf("for an unknown profile: %+v", out)
			}
		})
	}
}
