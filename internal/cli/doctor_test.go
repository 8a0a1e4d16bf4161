// SPDX-License-Identifier: MIT

package cli

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-appliance/hermes-appliance/installer/doctor"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/internal/testkit"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// doctorRun runs doctor --json on a home and returns its findings.
func doctorRun(t *testing.T, dir string, args ...string) (exitcode.Code, []doctor.Finding, string) {
	t.Helper()
	now := func() time.Time { return time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) }
	if slices.Contains(args, "--fix") {
		now = time.Now // it looks at files that it has just written
	}
	code, stdout, stderr := runAt(t, now, map[string]string{"HERMES_HOME": dir, "HERMES_MANAGED_DIR": filepath.Join(dir, "no-admin")}, append([]string{"doctor", "--json"}, args...)...)
	var doc struct {
		Exit   int
		Result struct{ Findings []doctor.Finding }
	}
	if err := json.Unmarshal([]byte(stdout), &doc); err != nil || (stderr != "") != (code != exitcode.OK) {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	if doc.Exit != int(code) {
		t.Errorf("exit %d, and %d in the document", code, doc.Exit)
	}
	return code, doc.Result.Findings, stdout
}

// says returns the first finding of a check whose message has a part.
func says(found []doctor.Finding, check, part string) *doctor.Finding {
	for i, f := range found {
		if f.Check == check && strings.Contains(f.Message, part) {
			return &found[i]
		}
	}
	return nil
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	const canary = "sk-canary-4711-doctor"
	answer := func(status int, date time.Time) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer "+canary {
				status = http.StatusTeapot
			}
			w.Header().Set("Date", date.UTC().Format(http.TimeFormat))
			w.WriteHeader(status)
		}))
		t.Cleanup(s.Close)
		return s.URL + "/v1"
	}
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC) // that of run
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())

	for _, c := range []struct {
		name, config, env string
		check, part       string
		level             doctor.Level
		exit              exitcode.Code
	}{
		{"no provider", "", "", "model and API", "rehearsal model", doctor.Note, exitcode.OK},
		{"the server answers", "model: {provider: custom, default: m, base_url: " + answer(200, now) + "}\n", "", "model and API", "answers", doctor.OK, exitcode.OK},
		{"the key is refused", "model: {provider: custom, default: m, base_url: " + answer(401, now) + "}\n", "", "model and API", "refuses the key", doctor.Problem, exitcode.Error},
		{"its clock is another", "model: {provider: custom, default: m, base_url: " + answer(200, now.Add(-time.Hour)) + "}\n", "", "model and API", "differ by 1h0m0s", doctor.Warning, exitcode.OK},
		{"nobody there", "model: {provider: custom, default: m, base_url: \"http://127.0.0.1:1/v1\"}\n", "", "model and API", "cannot be reached", doctor.Problem, exitcode.Error},
		{"no model is named", "model: {provider: custom, base_url: \"http://127.0.0.1:1/v1\"}\n", "", "model and API", "no model is named", doctor.Problem, exitcode.Error},
		{"the API has no key", "", "API_SERVER_ENABLED=true\n", "model and API", "API_SERVER_KEY is not set", doctor.Problem, exitcode.Error},
		{"the API's key is a placeholder (B32)", "", "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=undefined\n", "model and API", "is a placeholder", doctor.Problem, exitcode.Error},
		{"a provider's key is a placeholder (B32)", "model: {provider: openrouter, default: m}\n", "OPENROUTER_API_KEY='***'\n", "model and API", "is a placeholder", doctor.Problem, exitcode.Error},
		{"one wrong letter (B33)", "platform: {api_server: {enabled: true}}\n", "", "config", "means nothing here", doctor.Problem, exitcode.Error},
		{"the port is taken", "", "API_SERVER_ENABLED=true\nAPI_SERVER_KEY=" + canary + "\nAPI_SERVER_PORT=" + port + "\n", "model and API", "cannot listen", doctor.Problem, exitcode.Error},
		{"a wrong value", "terminal: {timeout: soon}\n", "", "config", "line 1", doctor.Problem, exitcode.Error},
		{"an unknown backend", "terminal: {backend: dokcer}\n", "", "config", "expected one of", doctor.Problem, exitcode.Error},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			text := fmt.Sprintf("%s_config_version: %d\n", c.config, migrate.Latest())
			testkit.WriteTree(t, dir, map[string]string{"config.yaml": text, ".env": c.env + "OPENAI_API_KEY=" + canary + "\n", "old": ""})
			if c.config == "" {
				testkit.WriteTree(t, dir, map[string]string{".env": c.env})
			}
			for _, name := range []string{"config.yaml", ".env"} {
				if err := os.Chtimes(filepath.Join(dir, name), now, now); err != nil {
					t.Fatal(err)
				}
				if err := os.Chmod(filepath.Join(dir, name), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			before := testkit.ReadTree(t, dir)
			code, found, stdout := doctorRun(t, dir)
			f := says(found, c.check, c.part)
			if f == nil || f.Level != c.level || code != c.exit {
				t.Errorf("exit %d, expected %s %q in %+v", code, c.level, c.part, found)
			}
			if strings.Contains(stdout, canary) {
				t.Error("it prints a key")
			}
			if after := testkit.ReadTree(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("it changed the home:\n%v\n%v", before, after)
			}
		})
	}
}

// TestReportB13BelowTheFloor: a config that nobody can migrate any more is left as it is, and
// everything else about the home is still told.
func TestReportB13BelowTheFloor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": "_config_version: 3\nmodel: {default: x}\n", ".env": ""})
	before := testkit.ReadTree(t, dir)
	code, found, _ := doctorRun(t, dir, "--offline", "--fix")
	if code != exitcode.Error || says(found, "config version", "3") == nil || says(found, "disk", "free") == nil || says(found, "model and API", "") == nil {
		t.Errorf("exit %d: %+v", code, found)
	}
	delete(before, ".env") // its mode may be mended
	after := testkit.ReadTree(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s: %q", name, after[name])
		}
	}
}

// TestDoctorFix mends a home and every profile of it, and nothing that --fix does not name.
func TestDoctorFix(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := "terminal:\n  docker_image: nikolaik/python-nodejs:python3.11-nodejs20 # copied\nmine: 1 # stays\n_config_version: 47\n"
	testkit.WriteTree(t, dir, map[string]string{"config.yaml": old, ".env": "A=1\n", "profiles/work/config.yaml": old, "profiles/work/.env": "B=2\n"})
	past := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, name := range []string{"config.yaml", ".env", "profiles/work/config.yaml", "profiles/work/.env"} {
		if err := os.Chtimes(filepath.Join(dir, name), past, past); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code, found, _ := doctorRun(t, dir, "--offline"); code != exitcode.Error || says(found, "config version of work", "older") == nil {
		t.Errorf("exit %d: %+v", code, found)
	}
	code, found, _ := doctorRun(t, dir, "--offline", "--fix")
	if code != exitcode.OK {
		t.Errorf("exit %d: %+v", code, found)
	}
	for _, check := range []string{"config version", "config version of work", "modes", "modes of work"} {
		if f := says(found, check, ""); f == nil || !f.Fixed {
			t.Errorf("%s was not mended: %+v", check, found)
		}
	}
	for _, name := range []string{"config.yaml", "profiles/work/config.yaml"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), "mine: 1 # stays") || strings.Contains(string(text), "nikolaik") {
			t.Errorf("%s: %v %s", name, err, text)
		}
	}
}
