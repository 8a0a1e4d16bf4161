// SPDX-License-Identifier: MIT

package repotest

import (
	"encoding/json"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hermes-appliance/hermes-appliance"

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath   string
	Dir          string
	Module       *struct{ Path string }
	Standard     bool
	GoFiles      []string
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
}

// own reports whether p is part of this repository, and its path below the module.
func (p pkg) own() (rel string, ok bool) {
	if p.ImportPath == module {
		return ".", true
	}
	rel, ok = strings.CutPrefix(p.ImportPath, module+"/")
	return rel, ok
}

// load lists every package of the repository and all they depend on.
func load(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=ImportPath,Dir,Module,Standard,GoFiles,Imports,Deps,TestImports,XTestImports", module+"/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		if err := dec.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

// layer returns the layer of a package of ours; unknown packages have none.
func layer(rel string) (int, bool) {
	switch {
	case strings.HasPrefix(rel, "cmd/"):
		return 6, true
	case rel == "internal/cli":
		return 5, true
	case rel == "appliance", rel == "installer", strings.HasPrefix(rel, "installer/"):
		return 4, true
	case rel == "appliance/gateway", rel == "appliance/control", rel == "appliance/web", strings.HasPrefix(rel, "appliance/platform/"):
		return 3, true
	case rel == "appliance/home", rel == "appliance/dotenv", rel == "migrate/yamlspan":
		return 1, true
	case rel == "migrate", rel == "service", rel == "images", rel == "images/smoke", strings.HasPrefix(rel, "appliance/"):
		return 2, true
	case rel == "internal/exitcode", rel == "internal/buildinfo", rel == "internal/atomicfile":
		return 0, true
	case rel == "internal/testkit", strings.HasPrefix(rel, "internal/testkit/"), rel == "internal/repotest", rel == "internal/terminaltest", rel == "nix":
		return -1, true // tests only; nothing imports them
	}
	return 0, false
}

// sideways are the imports allowed inside layer 2, each with its reason.
func sideways() map[[2]string]string {
	return map[[2]string]string{
		{"appliance/checkpoint", "appliance/process"}:       "git is a child like any other: the exit fence, a deadline, a whole tree killed",
		{"images/smoke", "images"}:                          "smoke proves what images built",
		{"appliance/model", "appliance/secret"}:             "a route carries its key as a secret",
		{"appliance/model", "appliance/redact"}:             "what a provider writes into an error may hold a credential",
		{"appliance/agent", "appliance/model"}:              "the loop speaks the vocabulary of the model",
		{"appliance/tool", "appliance/files"}:               "the file tools are what files does, with a schema around it",
		{"appliance/mcp", "appliance/process"}:              "a stdio server is a child like any other: its own session, the exit fence, a whole tree killed",
		{"appliance/mcp", "appliance/redact"}:               "what servers print to their error output is logged, and their errors are shown",
		{"appliance/sandbox", "appliance/process"}:          "commands in a container carry the same mark and are killed by the same clock as local ones",
		{"appliance/secret", "appliance/process"}:           "what a vault's command has printed is read to the last byte as any child's is",
		{"appliance/terminal", "appliance/process"}:         "a command is a process with a deadline, and its kill is process's",
		{"appliance/terminal/local", "appliance/process"}:   "the local backend starts children",
		{"appliance/terminal/local", "appliance/terminal"}:  "a backend fills in what terminal leaves open",
		{"appliance/terminal/docker", "appliance/process"}:  "a command in a container stands in the same registry and is fenced like a local one",
		{"appliance/terminal/docker", "appliance/sandbox"}:  "the docker backend runs commands in the container that sandbox keeps",
		{"appliance/terminal/docker", "appliance/terminal"}: "a backend fills in what terminal leaves open",
	}
}

// sameLayer are the imports allowed inside the other layers.
func sameLayer() map[[2]string]string {
	return map[[2]string]string{
		{"installer/update", "installer/generation"}:                 "an update is a generation like any other: what it describes and refuses is in that package's words",
		{"appliance/platform/apiserver", "appliance/gateway"}:        "a surface starts, follows and stops turns through the vocabulary of the gateway",
		{"appliance/platform/webhook", "appliance/gateway"}:          "an event starts a turn through the vocabulary of the gateway",
		{"appliance/platform/apiserver", "appliance/platform/httpd"}: "how a server listens, retires and ends",
		{"appliance/platform/webhook", "appliance/platform/httpd"}:   "how a server listens, retires and ends",
	}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for _, p := range load(t) {
		from, ok := p.own()
		if !ok {
			continue
		}
		lf, ok := layer(from)
		if !ok {
			t.Errorf("%s has no layer: put it where the architecture says, and into this test", from)
			continue
		}
		for _, imp := range p.Imports {
			to, ok := pkg{ImportPath: imp}.own()
			if !ok || lf < 0 {
				continue
			}
			lt, _ := layer(to)
			_, side := sideways()[[2]string{from, to}]
			_, same := sameLayer()[[2]string{from, to}]
			switch {
			case lt < 0:
				t.Errorf("%s imports %s: test code does not belong into the program", from, to)
			case lt > lf:
				t.Errorf("%s (layer %d) imports %s (layer %d): a package imports lower layers only", from, lf, to, lt)
			case lt == lf && !side && !same:
				t.Errorf("%s imports %s of its own layer %d: name the edge and its reason in this test, or move code down", from, to, lf)
			}
		}
	}
}

// ban forbids packages to depend, directly or not, on others.
type ban struct {
	from, what func(string) bool
	reason     string
}

func under(prefixes ...string) func(string) bool {
	return func(p string) bool {
		return slices.ContainsFunc(prefixes, func(x string) bool { return p == x || strings.HasPrefix(p, x+"/") })
	}
}

func bans() []ban {
	return []ban{
		{under("migrate"), under(module+"/appliance/config", module+"/images", module+"/service", "github.com/knadh/koanf"), "migrate runs on files the loader rejects, and its steps are frozen"},
		{under("appliance"), func(p string) bool { return p == module+"/migrate" || p == module+"/installer" }, "the runtime never changes the home's schema or the host"},
		{under("installer"), func(p string) bool {
			return under(module+"/appliance")(p) && p != module+"/appliance/home" && p != module+"/appliance/dotenv"
		}, "the installer changes the host; what the runtime knows of a profile is handed to it"},
		{under("service"), under(module + "/appliance"), "a service is described by a Spec; it knows no Hermes config"},
		{under("internal/exitcode", "internal/buildinfo", "internal/atomicfile"), func(p string) bool {
			return !strings.HasPrefix(p, "golang.org/x/sys") && !strings.HasPrefix(p, module)
		}, "layer 0 stands on the standard library and golang.org/x/sys"},
	}
}

func TestBans(t *testing.T) {
	t.Parallel()
	pkgs := load(t)
	standard := map[string]bool{}
	for _, p := range pkgs {
		standard[p.ImportPath] = p.Standard
	}
	for _, p := range pkgs {
		from, ok := p.own()
		if !ok {
			continue
		}
		for _, b := range bans() {
			if !b.from(from) {
				continue
			}
			for _, dep := range p.Deps {
				if !standard[dep] && b.what(dep) {
					t.Errorf("%s depends on %s: %s", from, dep, b.reason)
				}
			}
		}
	}
}

// owners says which packages alone may import a module, and why.
func owners() map[string][]string {
	return map[string][]string{
		"github.com/spf13/cobra":                            {"internal/cli"},
		"github.com/spf13/pflag":                            {"internal/cli"},
		"go.yaml.in/yaml/v3":                                {"migrate/yamlspan"},
		"github.com/aymanbagabas/go-udiff":                  {"migrate", "appliance/files", "installer"}, // all show people what changes
		"github.com/gofrs/flock":                            {"appliance/home"},
		"github.com/knadh/koanf":                            {"appliance/config"},
		"mvdan.cc/sh/v3":                                    {"appliance/approval", "appliance/terminal"},
		"github.com/anthropics/anthropic-sdk-go":            {"appliance/model"},
		"github.com/google/go-cmp/cmp":                      {"internal/testkit"},
		"github.com/rogpeppe/go-internal":                   {},
		"github.com/stretchr/testify/assert":                {},
		"modernc.org/sqlite":                                {"appliance/session"},
		"github.com/JohannesKaufmann":                       {"appliance/tool"},
		"github.com/modelcontextprotocol/go-sdk":            {"appliance/mcp"},
		"github.com/moby/moby":                              {"appliance/sandbox", "images"},
		"github.com/containerd/errdefs":                     {"appliance/sandbox", "images"},
		"github.com/docker/go-units":                        {"appliance/sandbox"},
		"github.com/creack/pty":                             {"appliance/terminal/local"},
		"github.com/Masterminds/semver/v3":                  {"images", "installer/update"},
		"github.com/docker/cli":                             {"images"},
		"github.com/google/go-containerregistry":            {"images"},
		"github.com/opencontainers/go-digest":               {"images"},
		"github.com/secure-systems-lab/go-securesystemslib": {"images"},
		"go.podman.io/image/v5":                             {"images"},
		"github.com/moby/buildkit":                          {},
		"github.com/rhysd/actionlint":                       {},
	}
}

func TestModuleOwners(t *testing.T) {
	t.Parallel()
	for _, p := range load(t) {
		from, ok := p.own()
		if !ok {
			continue
		}
		for _, imp := range p.Imports {
			for mod, allowed := range owners() {
				if (imp == mod || strings.HasPrefix(imp, mod+"/")) && !slices.Contains(allowed, from) {
					t.Errorf("%s imports %s; only %v may: one importer keeps a module replaceable", from, imp, allowed)
				}
			}
		}
	}
}

func TestNoEmptyRooms(t *testing.T) {
	t.Parallel()
	for _, p := range load(t) {
		if rel, ok := p.own(); ok && len(p.GoFiles) == 0 && path.Base(rel) != "repotest" {
			t.Errorf("%s has no code: packages appear when they have work to do", rel)
		}
	}
}
