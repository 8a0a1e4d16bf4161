// SPDX-License-Identifier: MIT

package approval

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Answer is what a person or the guardian said. The zero value denies.
type Answer uint8

// The answers. Once is this one command, now, and nothing else.
const (
	Deny Answer = iota
	Once
	ForSession
	Always
)

// Await asks and waits. No answer in time, a failing question, an ended context and anything
// that is not an answer all deny. ask must return when its context ends; a late answer is
// dropped.
func Await(ctx context.Context, timeout time.Duration, ask func(context.Context) (Answer, error)) Answer {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	got := make(chan Answer, 1)
	go func() {
		a, err := ask(ctx)
		if err != nil || a > Always {
			a = Deny
		}
		got <- a
	}()
	select {
	case a := <-got:
		if ctx.Err() != nil {
			return Deny
		}
		return a
	case <-ctx.Done():
		return Deny
	}
}

// Book records answers: session grants in memory, permanent ones in the profile's config.
type Book struct {
	Sessions *Sessions
	Lists    *Lists
}

// Settle records the answer to a verdict and reports whether the command may run. What cannot
// be granted stays a "once". If a permanent grant cannot be saved, the command may run, the
// grant holds for the session, and the error says why it is not permanent.
func (b Book) Settle(ctx context.Context, home, id string, v Verdict, a Answer) (run bool, err error) {
	err = b.Revoke(ctx, home, id, v)
	switch {
	case v.Decision == Allow:
		return true, err
	case v.Decision != Ask || a == Deny || a > Always:
		return false, err
	case a == Once || len(v.Grants) == 0:
		return true, err
	}
	b.Sessions.Grant(home, id, v.Grants)
	if a == Always {
		err = errors.Join(err, b.Lists.Add(ctx, home, v.Grants))
	}
	return true, err
}

// Revoke takes back the grants a tightened rule ends, in the session and in that profile's
// config only (A2); [Book.Settle] does it for every verdict. If it fails, the grant is still
// in the config, but no rule honours it unless it is made lax again.
func (b Book) Revoke(ctx context.Context, home, id string, v Verdict) error {
	if len(v.Revoke) == 0 {
		return nil
	}
	b.Sessions.Revoke(home, id, v.Revoke)
	if err := b.Lists.Remove(ctx, home, v.Revoke); err != nil {
		return fmt.Errorf("grant not revoked: %w", err)
	}
	return nil
}
