// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/apiserver"
	"github.com/hermes-appliance/hermes-appliance/appliance/sandbox"
	"github.com/hermes-appliance/hermes-appliance/appliance/terminal/docker"
)

// sandboxSpec is the sandbox that a profile's policy asks for.
func (t *Tenant) sandboxSpec(policy *config.Terminal) (sandbox.Spec, error) {
	return sandbox.FromSettings(policy, sandbox.Place{
		Home: t.home.Dir, Key: string(t.key), Profile: t.home.Profile, Pinned: policy.Pin() != config.NoPin,
		User: strconv.Itoa(os.Geteuid()) + ":" + strconv.Itoa(os.Getegid()),
	})
}

// sandbox looks at the profile's sandbox; the choice is nil where none is open.
func (t *Tenant) sandbox(ctx context.Context) (apiserver.Sandbox, *sandbox.Switch, error) {
	ctx, b, err := t.bind(ctx)
	if err != nil {
		return apiserver.Sandbox{}, nil, err
	}
	policy, err := t.term.settings(b)
	if err != nil {
		return apiserver.Sandbox{}, nil, err
	}
	out := apiserver.Sandbox{Backend: policy.Backend()}
	if out.Backend != "docker" {
		return out, nil, nil
	}
	spec, err := t.sandboxSpec(policy)
	if err != nil {
		return out, nil, err
	}
	out.Image, out.Pin = spec.Image, string(policy.Pin())
	engine, err := t.rt.containers(ctx)
	var choice *sandbox.Switch
	if err == nil {
		choice, err = engine.Pending(ctx, spec)
	}
	if err != nil {
		return out, nil, &apiserver.SandboxError{Code: "engine_unreachable", Message: docker.Explain(err).Error()}
	}
	if choice != nil {
		out.Choice = &apiserver.SandboxChoice{Current: choice.Current, Target: choice.Target, Containers: []apiserver.SandboxContainer{}}
		for _, c := range choice.Containers {
			out.Choice.Containers = append(out.Choice.Containers, apiserver.SandboxContainer{Name: c.Name, Task: c.Task, Image: c.Image, State: c.State})
		}
	}
	return out, choice, nil
}

// Sandbox implements [apiserver.Profile].
func (p apiProfile) Sandbox(ctx context.Context) (apiserver.Sandbox, error) {
	s, _, err := p.t.sandbox(ctx)
	return s, err
}

// AnswerSandbox implements [apiserver.Profile]. It is the profile's owner who answers, with the
// profile's own key: a gateway never decides by itself (migrations spec §5).
func (p apiProfile) AnswerSandbox(ctx context.Context, yes bool) (apiserver.SandboxAnswer, error) {
	p.t.choosing.Lock() // the second of two answers finds no question
	defer p.t.choosing.Unlock()
	_, choice, err := p.t.sandbox(ctx)
	if err != nil {
		return apiserver.SandboxAnswer{}, err
	}
	if choice == nil {
		return apiserver.SandboxAnswer{}, &apiserver.SandboxError{Code: "no_choice", Message: "there is nothing to choose: no sandbox was made from another image than the one of now", Conflict: true}
	}
	e := p.t.rt.env.Allowlists().editor(p.t.home.Dir)
	c, err := e.SetText(ctx, []string{"terminal", "docker_image"}, choice.Answer(yes))
	if _, ok := errors.AsType[*config.Error](err); ok {
		err = &apiserver.SandboxError{Code: "not_written", Message: err.Error(), Conflict: true}
	} else if _, ok := errors.AsType[*home.LockedError](err); ok {
		err = &apiserver.SandboxError{Code: "locked", Message: err.Error(), Conflict: true}
	}
	if err != nil {
		return apiserver.SandboxAnswer{}, err
	}
	p.t.rt.log.InfoContext(ctx, "the sandbox's owner chose its image", "profile", p.t.home.Profile, "image", choice.Answer(yes), "switch", yes)
	return apiserver.SandboxAnswer{Image: choice.Answer(yes), Notes: c.Notes}, nil
}
