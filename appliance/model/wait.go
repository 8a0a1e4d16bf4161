// SPDX-License-Identifier: MIT

package model

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-appliance/hermes-appliance/appliance/redact"
)

var (
	errStale   = errors.New("stale stream")
	errTimeout = errors.New("request timeout")
)

// watch cancels a call that takes too long or falls silent. It is safe for concurrent use.
type watch struct {
	cancel context.CancelCauseFunc
	stale  time.Duration
	ctx    context.Context //nolint:containedctx // the watch is the context of one call

	timers []*time.Timer
	silent *time.Timer // nil = silence is allowed
}

// watchOver makes the context of a call. Zero durations are no limits.
func watchOver(ctx context.Context, whole, stale time.Duration) (context.Context, *watch) {
	w := &watch{stale: stale}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	if whole > 0 {
		w.timers = append(w.timers, time.AfterFunc(whole, func() { w.cancel(errTimeout) }))
	}
	if stale > 0 {
		w.silent = time.AfterFunc(stale, func() { w.cancel(errStale) })
		w.timers = append(w.timers, w.silent)
	}
	return w.ctx, w
}

// touch says that something came.
func (w *watch) touch() {
	if w.silent != nil {
		w.silent.Reset(w.stale)
	}
}

func (w *watch) stop() {
	for _, t := range w.timers {
		t.Stop()
	}
	w.cancel(nil)
}

// expired returns which limit was passed, nil = none.
func (w *watch) expired() error {
	switch cause := context.Cause(w.ctx); {
	case errors.Is(cause, errStale):
		return errStale
	case errors.Is(cause, errTimeout):
		return errTimeout
	}
	return nil
}

// retryAfter reads how long a provider asks to wait: milliseconds, seconds or a date. What
// makes no sense, or lies in the past, is nothing.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	bound := func(d time.Duration) time.Duration { return max(0, min(d, most)) }
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < float64(most/time.Millisecond) {
		return bound(time.Duration(ms * float64(time.Millisecond)))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s > most.Seconds() {
			return most
		}
		return bound(time.Duration(s * float64(time.Second)))
	}
	if t, err := http.ParseTime(v); err == nil {
		return bound(t.Sub(now))
	}
	return 0
}

// maxDetail bounds what an error tells of a provider's message, in bytes.
const maxDetail = 500

// mask makes a provider's words fit for an error: one line, not long, and without the key,
// the values of the headers, the profile's secrets and what looks like a credential.
func (r Route) mask(s string) string {
	secrets := []string{r.Key.Reveal()}
	for _, v := range r.Headers {
		secrets = append(secrets, v, strings.TrimPrefix(v, "Bearer "))
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, v := range secrets {
		if len(v) >= 4 {
			s = strings.ReplaceAll(s, v, redact.Mask)
		}
	}
	s = redact.New(true, nil).String(r.Hide.String(s))
	s = strings.Join(strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }), " ")
	if len(s) > maxDetail {
		cut := maxDetail
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return s
}
