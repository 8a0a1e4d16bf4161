// SPDX-License-Identifier: MIT

package secret

import (
	"context"
	"fmt"
	"strings"
	"sync"
)

// Bootstrap tokens of the built-in sources.
const (
	EnvOnePassword = "OP_SERVICE_ACCOUNT_TOKEN"
	EnvBitwarden   = "BWS_ACCESS_TOKEN"
)

// opWorkers is how many items are read at once.
const opWorkers = 4

// OnePassword reads items of 1Password with the op CLI, one "op read" for each name. Without a
// token op uses the session of the user it runs as.
type OnePassword struct {
	Is       Spec   // Refs: NAME -> op://vault/item/field
	Account  string // op --account; "" = its default
	TokenEnv string // where the token is; "" = EnvOnePassword
	Binary   string // absolute; "" = op in PATH
}

func (o *OnePassword) tokenEnv() string {
	if o.TokenEnv != "" {
		return o.TokenEnv
	}
	return EnvOnePassword
}

// Spec returns o.Is with the account as the place of its values.
func (o *OnePassword) Spec() Spec {
	s := o.Is
	s.Name, s.Shape, s.Place = "onepassword", Mapped, "op\x00"+o.Account
	s.Protected = []string{o.tokenEnv(), EnvOnePassword}
	return s
}

// Fetch reads every item. If none was read and all for the same reason, that is its error.
func (o *OnePassword) Fetch(ctx context.Context, in Input) (Fetched, error) {
	if len(o.Is.Refs) == 0 {
		return Fetched{}, &FetchError{Source: "onepassword", Reason: NotConfigured, Detail: "secrets.onepassword.env is empty"}
	}
	env := o.env(in)
	f := Fetched{Values: map[string]Text{}, Failed: map[string]Reason{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	names := make(chan string)
	for range min(opWorkers, len(o.Is.Refs)) {
		wg.Go(func() {
			for name := range names {
				text, err := o.read(ctx, in, env, o.Is.Refs[name])
				mu.Lock()
				if err != nil {
					f.Failed[name] = err.Reason
				} else {
					f.Values[name] = text
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range sorted(o.Is.Refs) {
		names <- name
	}
	close(names)
	wg.Wait()
	return f, o.whole(f)
}

// whole makes one error of a fetch that got nothing.
func (o *OnePassword) whole(f Fetched) error {
	reasons := map[Reason]bool{}
	for _, r := range f.Failed {
		reasons[r] = true
	}
	if len(f.Values) > 0 || len(reasons) != 1 {
		return nil
	}
	for r := range reasons {
		if !r.gone() {
			return &FetchError{Source: "onepassword", Reason: r, Detail: fmt.Sprintf("%d items", len(f.Failed))}
		}
	}
	return nil
}

func (o *OnePassword) read(ctx context.Context, in Input, env []string, ref string) (Text, *FetchError) {
	fail := func(r Reason) (Text, *FetchError) { return Text{}, &FetchError{Source: "onepassword", Reason: r} }
	if !strings.HasPrefix(ref, "op://") {
		return fail(NotFound)
	}
	binary := o.Binary
	if binary == "" {
		binary = "op"
	}
	args := []string{binary, "read"}
	if o.Account != "" {
		args = append(args, "--account", o.Account)
	}
	out, err := in.Run.Run(ctx, Job{Args: append(args, "--", ref), Env: env, Dir: in.Key})
	switch {
	case err != nil:
		return Text{}, failure("onepassword", err)
	case out.Code != 0:
		return fail(classify(out))
	}
	// op ends the value with a line break of its own. Other white space may belong to it.
	value := strings.TrimRight(string(out.Stdout), "\r\n")
	if strings.TrimSpace(value) == "" {
		return fail(NoValue)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fail(Garbage)
	}
	return Wrap(value), nil
}

// env gives op the variables of its own that this home has, and no other's.
func (o *OnePassword) env(in Input) []string {
	add := map[string]string{"NO_COLOR": "1"}
	for name, v := range in.Vars {
		if strings.HasPrefix(name, "OP_") {
			add[name] = v.Reveal()
		}
	}
	delete(add, EnvOnePassword)
	if v := strings.TrimSpace(in.Vars[o.tokenEnv()].Reveal()); v != "" {
		add[EnvOnePassword] = v
	}
	return in.env("op", func(name string) bool {
		return strings.HasPrefix(name, "OP_") || name == strings.ToUpper(o.tokenEnv())
	}, add)
}
