// SPDX-License-Identifier: MIT

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestReportB16MessageWhileApprovalIsOpen (H#27352): whoever writes to a conversation whose turn
// waits for an approval is told so at once, on every surface, with what answers it; and the
// answer to it still counts.
func TestReportB16MessageWhileApprovalIsOpen(t *testing.T) {
	t.Parallel()
	p := newPlace(t, map[string]string{"config.yaml": "_config_version: 50\napprovals: {mode: manual}\n", ".env": apiOn})
	g := p.start(t, "gateway", "run", "--home", p.home)
	dir, command := p.victim(t, "v")
	_, body := g.request(g.key, "/api/sessions", `{}`)
	session := field[map[string]any](t, body, "session")["id"].(string)
	s := g.stream("/api/sessions/"+session+"/chat/stream", `{"message":`+quote("run: "+command)+`}`)
	ask := s.until("approval.request")
	id, run := fmt.Sprint(ask["request_id"]), fmt.Sprint(ask["run_id"])
	for _, path := range []string{"/chat", "/chat/stream"} {
		status, got := g.request(g.key, "/api/sessions/"+session+path, `{"message":"are you there?"}`)
		if status != 409 || !strings.Contains(got, `"approval_pending"`) || !strings.Contains(got, id) || !strings.Contains(got, "/v1/runs/"+run+"/approval") {
			t.Errorf("%s: %d %s", path, status, got)
		}
	}
	status, got := g.request(g.key, "/v1/runs", `{"input":"are you there?","session_id":`+quote(session)+`}`)
	if status != 202 {
		t.Fatalf("%d %s", status, got)
	}
	failed := g.stream("/v1/runs/"+field[string](t, got, "run_id")+"/events", "").until("run.failed", "run.completed")
	if text := fmt.Sprint(failed["error"]); failed["error_code"] != "approval_pending" || !strings.Contains(text, id) {
		t.Errorf("%v", failed)
	}
	if status := g.answer(run, id, "once"); status != 200 {
		t.Errorf("answer: %d", status)
	}
	s.until("run.completed", "approval.request")
	if there(dir) {
		t.Error("approved and not run")
	}
	if code := g.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit %d", code)
	}
}
