// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/platform/webhook"
	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
)

// veil is a profile's redactor with what it was made of.
type veil struct {
	own, launch *config.Config
	secrets     any // the version of the scope
	redact      *redact.Redactor
}

// redactor hides the profile's own secrets, of its files as they are now; it knows no other
// profile's.
func (t *Tenant) redactor(b bound) *redact.Redactor {
	v := veil{own: b.view.Config, secrets: b.scope.Version()}
	if t.key != t.rt.env.host.LaunchKey() {
		if c, err := t.rt.env.configs.Load(t.rt.env.o.Launch, t.rt.env.configOptions()); err == nil {
			v.launch = c
		}
	}
	if old := t.veil.Load(); old != nil && old.own == v.own && old.launch == v.launch && old.secrets == v.secrets {
		return old.redact
	}
	on := redact.Switch(redact.Lookups{
		Scope: func() (string, bool) { return b.lookup("HERMES_REDACT_SECRETS") },
		Config: func() (bool, bool, error) {
			if !b.view.Has("security", "redact_secrets") {
				return false, false, nil
			}
			v, err := b.view.Bool("security", "redact_secrets")
			return v, err == nil, err
		},
	})
	v.redact = redact.New(on, slices.Concat(t.lent(v.launch), written(b.view), t.hidden(b.scope)))
	t.veil.Store(&v)
	t.rt.veils.put(t, v.redact)
	return v.redact
}

// written are the secrets that stand in a profile's config itself, or that it takes from
// variables whose names say nothing.
func written(v config.View) (out []string) {
	v.Each(func(key string, value any) {
		for _, s := range redact.Values(key, value) {
			if s != webhook.NoAuth { // says that there is none
				out = append(out, s)
			}
		}
	})
	return out
}

// lent are the secrets of routes that the launch profile's config binds to this profile, as
// they are written there: its events are proven with them.
func (t *Tenant) lent(launch *config.Config) (out []string) {
	if launch == nil {
		return nil
	}
	for _, section := range hookSections() {
		for _, below := range [][]string{{"routes"}, {"extra", "routes"}} {
			routes, err := launch.With(nil).Map(slices.Concat(section, below)...)
			if err != nil {
				continue
			}
			for _, value := range routes {
				if (hookRoute{value: value}).bound() == t.Name() {
					out = append(out, redact.Values("", value)...)
				}
			}
		}
	}
	return out
}

// hidden are the values of a scope that are secrets, those of credentials that are known as such
// last: of very many the first are left out.
func (t *Tenant) hidden(scope *secret.Scope) []string {
	policy := t.rt.env.policy
	var known, others []string
	for _, v := range scope.Values() {
		if v.Origin.Kind == secret.Launch || policy.Global(v.Name) {
			continue // of the host; a path or a locale is no secret
		}
		switch tier, _ := policy.Tier(v.Name); {
		case tier > 0:
			known = append(known, v.Text.Reveal())
		case policy.Secretive(v.Name) || v.Origin.Kind == secret.Sourced:
			others = append(others, v.Text.Reveal())
		}
	}
	return append(others, known...)
}

// veils are the redactors that the profiles of a gateway used last, for the one log that all
// of them write: by the id and the home key of a profile.
type veils struct{ by sync.Map }

func (v *veils) put(t *Tenant, r *redact.Redactor) {
	if v == nil {
		return // nobody logs
	}
	names := []string{t.home.Profile, string(t.key)}
	if t.key == t.rt.env.host.LaunchKey() {
		names = append(names, "")
	}
	for _, name := range names {
		v.by.Store(name, r)
	}
}

// drop forgets the redactor of a profile that is gone.
func (v *veils) drop(t *Tenant) {
	v.by.Delete(t.home.Profile)
	v.by.Delete(string(t.key))
}

// logger hides in each record the secrets of the profile that its attribute "profile" names,
// and in a record without one those of the launch profile, whose log it is.
func (v *veils) logger(log *slog.Logger) *slog.Logger {
	return slog.New(&veiled{next: log.Handler(), veils: v})
}

type veiled struct {
	next    slog.Handler
	veils   *veils
	profile string
}

// Enabled implements [slog.Handler].
func (h *veiled) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// WithGroup implements [slog.Handler].
func (h *veiled) WithGroup(name string) slog.Handler {
	return &veiled{h.next.WithGroup(name), h.veils, h.profile}
}

// WithAttrs implements [slog.Handler].
func (h *veiled) WithAttrs(attrs []slog.Attr) slog.Handler {
	name := h.profile
	for _, a := range attrs {
		name = profileOf(a, name)
	}
	return &veiled{h.next.WithAttrs(h.veils.attrs(name, attrs)), h.veils, name}
}

// Handle implements [slog.Handler].
func (h *veiled) Handle(ctx context.Context, rec slog.Record) error {
	name := h.profile
	attrs := make([]slog.Attr, 0, rec.NumAttrs())
	rec.Attrs(func(a slog.Attr) bool {
		attrs, name = append(attrs, a), profileOf(a, name)
		return true
	})
	out := slog.NewRecord(rec.Time, rec.Level, h.veils.text(name, rec.Message), rec.PC)
	out.AddAttrs(h.veils.attrs(name, attrs)...)
	return h.next.Handle(ctx, out)
}

// profileOf is the profile that an attribute names, else the one before.
func profileOf(a slog.Attr, before string) string {
	if a.Key == "profile" {
		return a.Value.String()
	}
	return before
}

func (v *veils) text(name, s string) string {
	r, _ := v.by.Load(name)
	hide, _ := r.(*redact.Redactor)
	return hide.String(s)
}

func (v *veils) attrs(name string, attrs []slog.Attr) []slog.Attr {
	out := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		out[i] = slog.Attr{Key: a.Key, Value: v.value(name, a.Value.Resolve())}
	}
	return out
}

// value hides secrets in a value; one that holds none stays what it is.
func (v *veils) value(name string, x slog.Value) slog.Value {
	if x.Kind() == slog.KindGroup {
		return slog.GroupValue(v.attrs(name, x.Group())...)
	}
	if x.Kind() == slog.KindString || x.Kind() == slog.KindAny {
		s := x.String()
		if shown := v.text(name, s); shown != s {
			return slog.StringValue(shown)
		}
	}
	return x
}
