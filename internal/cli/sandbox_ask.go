// SPDX-License-Identifier: MIT

package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// AskSwitch asks the open question about a profile's sandbox image, if there is one, at the
// start of a command that a person sits in front of: y moves to the new default, n stays,
// and everything else is later, also the end of the input or of ctx; then nothing is written
// and the next start asks again. That the question cannot be looked up is no reason not to
// start: it counts as none. Only a failure to write the answer is an error.
func AskSwitch(ctx context.Context, env Env, h home.Home) (err error) {
	v, err := viewSandbox(ctx, env, h)
	if err != nil || v.engine == nil {
		return nil // whoever runs a command will be told
	}
	defer func() { err = errors.Join(err, v.close(ctx)) }()
	q, err := v.engine.Pending(ctx, v.spec)
	if err != nil || q == nil {
		return nil // no question can be asked
	}
	fmt.Fprintf(env.Stderr, "The sandbox of the profile %s was made from %s.\nThe default image is now %s.\n%s\nSwitch? y = switch, n = keep it, Enter = ask later: ", //nolint:errcheck // nowhere left to say it
		h.Profile, q.Current, q.Target, "If you switch, "+whatStays())
	yes, no := false, false
	switch strings.ToLower(strings.TrimSpace(readLine(ctx, env.Stdin))) {
	case "y", "yes":
		yes = true
	case "n", "no":
		no = true
	}
	if ctx.Err() != nil || !yes && !no {
		fmt.Fprintf(env.Stderr, "\nLater, then. %s sandbox switch or keep answers at any time.\n", Name) //nolint:errcheck // nowhere left to say it
		return nil
	}
	if _, err := decide(ctx, env, v, *q, yes); err != nil {
		return err
	}
	_, err = fmt.Fprint(env.Stderr, decided(*q, yes))
	return err
}

// readLine reads a line while ctx lives; "" if there is none. A line that is not complete is
// no answer: whoever pressed Ctrl-D did not press Enter.
func readLine(ctx context.Context, r io.Reader) string {
	line := make(chan string, 1)
	go func() {
		s, err := bufio.NewReader(r).ReadString('\n')
		if err != nil {
			s = ""
		}
		line <- s
	}()
	select {
	case s := <-line:
		return s
	case <-ctx.Done():
		return ""
	}
}
