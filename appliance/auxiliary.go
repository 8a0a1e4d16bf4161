// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/approval"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/appliance/session"
)

// The side tasks of a turn that a model of their own may do, by the names of their sections
// below auxiliary in a config.
const (
	auxApproval    = "approval"
	auxTitle       = "title_generation"
	auxCompression = "compression"
)

// auxTime is how long a side task may take where its section does not say.
const auxTime = 30 * time.Second

// errNoModel says that there is no model but the rehearsal, which judges nothing.
var errNoModel = errors.New("no provider is configured")

// auxiliary is the model of a side task.
type auxiliary struct {
	task    string
	route   model.Route
	timeout time.Duration
	effort  string
}

// auxiliary reads auxiliary.<task> of the profile: a model of its own, or where it names none
// that of the turn.
func (w *work) auxiliary(task string) (auxiliary, error) {
	if len(w.routes) == 0 {
		return auxiliary{}, errNoModel
	}
	a, err := auxiliaryOf(w.b.view, w.b.lookup, task, w.routes[0])
	if err != nil {
		return a, fmt.Errorf("auxiliary.%s: %w", task, err)
	}
	if a.route.APIMode == model.RehearsalMode {
		return a, errNoModel
	}
	return a, nil
}

func auxiliaryOf(v config.View, lookup config.Lookup, task string, main model.Route) (a auxiliary, err error) {
	r := router{v: v, lookup: lookup}
	section := map[string]string{}
	for _, key := range []string{"provider", "model", "base_url", "api_key", "reasoning_effort"} {
		if section[key], err = r.text("auxiliary", task, key); err != nil {
			return a, err
		}
	}
	a = auxiliary{task: task, route: main, timeout: auxTime, effort: section["reasoning_effort"]}
	if v.Has("auxiliary", task, "timeout") {
		d, err := v.Duration("auxiliary", task, "timeout")
		if err != nil {
			return a, err
		}
		if d > 0 {
			a.timeout = min(d, model.DefaultTimeout)
		}
	}
	name, o := section["provider"], override{base: section["base_url"], key: section["api_key"]}
	switch {
	case (name == "" || name == "auto") && o.base != "":
		name = "custom"
	case name == "" || name == "auto" || name == "main":
		a.route.Model = first(section["model"], main.Model)
		return a, nil
	}
	id := section["model"]
	if id == "" && name == main.Provider {
		id = main.Model
	}
	a.route, err = r.named(name, id, o)
	return a, err
}

// side asks the model of a side task and returns the whole of what it says. An answer that was
// cut off or withheld is none.
func (w *work) side(ctx context.Context, a auxiliary, req model.Request) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	req.Effort = a.effort
	got, err := models{w.t.rt.models, w.b.redact}.Stream(ctx, a.route, req, nil)
	if err != nil {
		return "", err
	}
	w.spent(context.WithoutCancel(ctx), a, got.Usage)
	if got.Finish != model.FinishStop || len(got.Message.Calls) > 0 {
		return "", fmt.Errorf("%s/%s: the answer is not complete (%s)", a.route.Provider, a.route.Model, got.Finish)
	}
	return got.Message.Text(), nil
}

// spent books what a side task used with the session that it was done for.
func (w *work) spent(ctx context.Context, a auxiliary, u model.Usage) {
	store, err := w.t.Sessions(ctx)
	if err == nil {
		id := first(w.turn.Session(), w.session)
		err = store.AddUsage(ctx, id, a.route.Model, a.task, session.Usage{
			Calls: 1, Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite,
			Reasoning: u.Reasoning, Provider: a.route.Provider,
		})
	}
	if err != nil {
		w.t.rt.log.WarnContext(ctx, "usage not recorded", "profile", w.t.home.Profile, "session", w.session, "task", a.task, "error", err)
	}
}

// review has the auxiliary model look at a command before a person is asked. Whatever goes
// wrong, also that the model would not see every byte of the command, leaves it to the person.
func (w *work) review(ctx context.Context, v approval.Verdict, command, dir string) approval.Opinion {
	if w.b.redact.String(command) != command || w.b.redact.String(dir) != dir {
		return approval.Escalate // it holds a secret of the profile's
	}
	r, ok := approval.NewReview(v, command, dir)
	if !ok {
		return approval.Escalate
	}
	log := w.t.rt.log.With("profile", w.t.home.Profile, "session", w.session)
	a, err := w.auxiliary(auxApproval)
	if errors.Is(err, errNoModel) {
		return approval.Escalate
	}
	var answer string
	if err == nil {
		answer, err = w.side(ctx, a, model.Request{
			System: r.System, Messages: []model.Message{model.Text(model.User, r.Data)}, MaxTokens: reviewTokens,
		})
	}
	if err != nil {
		log.WarnContext(ctx, "the model that reviews commands gives no verdict; a person is asked", "error", err)
		return approval.Escalate
	}
	opinion := r.Opinion(answer)
	if ctx.Err() != nil {
		return approval.Escalate
	}
	log.InfoContext(ctx, "command reviewed", "command", v.Shown, "verdict", opinion.String(), "model", a.route.Provider+"/"+a.route.Model)
	if opinion != approval.Escalate {
		w.root().turn.Reviewed(gateway.Review{Command: v.Shown, Reason: v.Reason, Passed: opinion == approval.Passes, Subagent: w.subagent()})
	}
	return opinion
}

// reviewTokens bounds the answer of a review: the verdict is short, but some models think
// inside the same limit.
const reviewTokens = 4096

// compressor is the model that summarises a long conversation; the zero route is the turn's.
func (w *work) compressor(ctx context.Context) model.Route {
	a, err := w.auxiliary(auxCompression)
	if err != nil && !errors.Is(err, errNoModel) {
		w.t.rt.log.WarnContext(ctx, "the model of the turn summarises", "profile", w.t.home.Profile, "error", err)
	}
	if err != nil {
		return model.Route{}
	}
	if w.b.view.Has("auxiliary", auxCompression, "timeout") {
		a.route.Timeout = a.timeout
	}
	return a.route
}
