// SPDX-License-Identifier: MIT

package model

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Reach is what a provider's server says when it is asked whether it is there.
type Reach struct {
	Status int       // of its list of models; 404 from servers that have none
	Date   time.Time // of its clock, to the second; zero if it does not say
}

// Reach asks the server of a route for its list of models, with the route's key: nothing is
// generated, nothing is paid for. A server that answers with a failure, a refused key among
// them, is no error. The error names no part of the address but the host.
func (c *Client) Reach(ctx context.Context, r Route) (Reach, error) {
	if r.mode() == RehearsalMode {
		return Reach{Status: http.StatusOK}, nil
	}
	base := r.base(openaiBase)
	if r.mode() == AnthropicMessages {
		base = strings.TrimSuffix(strings.TrimRight(r.base("https://api.anthropic.com"), "/"), "/v1") + "/v1"
	}
	u, err := url.Parse(base)
	if err != nil {
		return Reach{}, errors.New("base_url is no URL: " + plain(err))
	}
	u = u.ResolveReference(&url.URL{Path: strings.TrimSuffix(u.Path, "/") + "/models"})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return Reach{}, errors.New("base_url is no URL: " + plain(err))
	}
	req.Header.Set("User-Agent", userAgent)
	switch {
	case r.Key.Empty():
	case r.mode() == AnthropicMessages:
		req.Header.Set("X-Api-Key", r.Key.Reveal())
		req.Header.Set("Anthropic-Version", "2023-06-01")
	default:
		req.Header.Set("Authorization", "Bearer "+r.Key.Reveal())
	}
	for name, value := range r.Headers {
		req.Header.Set(name, value)
	}
	var status *statusError
	resp, err := c.http.Do(req)
	switch {
	case errors.As(err, &status):
		return Reach{status.status, dateOf(status.header)}, nil
	case err != nil:
		return Reach{}, errors.New(u.Host + ": " + r.mask(plain(err)))
	}
	return Reach{resp.StatusCode, dateOf(resp.Header)}, resp.Body.Close()
}

func dateOf(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}
