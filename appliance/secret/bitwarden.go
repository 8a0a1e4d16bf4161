// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
)

// Bitwarden reads a project of Bitwarden Secrets Manager with the bws CLI: the one of
// <home>/bin if it is there, as upstream installs it, else that of PATH.
type Bitwarden struct {
	Is       Spec
	Project  string
	Server   string // "" = the CLI's default
	TokenEnv string // where the token is; "" = EnvBitwarden
	Binary   string // absolute; "" = see above
}

func (b *Bitwarden) tokenEnv() string {
	if b.TokenEnv != "" {
		return b.TokenEnv
	}
	return EnvBitwarden
}

// Spec returns b.Is with server and project as the place of its values.
func (b *Bitwarden) Spec() Spec {
	s := b.Is
	s.Name, s.Shape, s.Place = "bitwarden", Bulk, b.Server+"\x00"+b.Project
	s.Protected = []string{b.tokenEnv(), EnvBitwarden}
	return s
}

// Fetch lists the project. Of two secrets of one name the later one counts.
func (b *Bitwarden) Fetch(ctx context.Context, in Input) (Fetched, error) {
	fail := func(r Reason, detail string) (Fetched, error) {
		return Fetched{}, &FetchError{Source: "bitwarden", Reason: r, Detail: detail}
	}
	token := strings.TrimSpace(in.Vars[b.tokenEnv()].Reveal())
	switch {
	case token == "":
		return fail(NotConfigured, b.tokenEnv()+" is not set")
	case b.Project == "":
		return fail(NotConfigured, "secrets.bitwarden.project_id is empty")
	case strings.HasPrefix(b.Project, "-"):
		return fail(NotConfigured, "secrets.bitwarden.project_id is no id")
	}
	out, err := in.Run.Run(ctx, Job{
		Args: []string{b.binary(in), "secret", "list", b.Project, "--output", "json"},
		Env:  b.env(in, token),
		Dir:  in.Key,
	})
	if err != nil {
		return Fetched{}, failure("bitwarden", err)
	}
	if out.Code != 0 {
		return fail(classify(out), "")
	}
	var items []struct {
		Key   *string `json:"key"`
		Value *string `json:"value"`
	}
	// An empty project is "[]". No output at all is no answer.
	if json.Unmarshal(out.Stdout, &items) != nil || items == nil {
		return fail(Garbage, "no JSON list")
	}
	f := Fetched{Values: make(map[string]Text, len(items))}
	for _, it := range items {
		if it.Key == nil || it.Value == nil {
			f.Ignored++
			continue
		}
		f.Values[*it.Key] = Wrap(*it.Value)
	}
	return f, nil
}

func (b *Bitwarden) binary(in Input) string {
	if b.Binary != "" {
		return b.Binary
	}
	name := "bws"
	if runtime.GOOS == "windows" {
		name = "bws.exe"
	}
	if p := filepath.Join(in.Key, "bin", name); program(p) {
		return p
	}
	return "bws"
}

// env gives bws the token and the server of this home, and no other's.
func (b *Bitwarden) env(in Input, token string) []string {
	add := map[string]string{"NO_COLOR": "1", EnvBitwarden: token}
	if b.Server != "" {
		add["BWS_SERVER_URL"] = b.Server
	} else if v := in.Vars["BWS_SERVER_URL"]; !v.Empty() {
		add["BWS_SERVER_URL"] = v.Reveal()
	}
	return in.env("bws", func(name string) bool {
		return strings.HasPrefix(name, "BWS_") || name == strings.ToUpper(b.tokenEnv())
	}, add)
}
