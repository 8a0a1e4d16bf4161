// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/childenv"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
	"github.com/hermes-appliance/hermes-appliance/installer/doctor"
	"github.com/hermes-appliance/hermes-appliance/installer/generation"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
	"github.com/hermes-appliance/hermes-appliance/migrate"
)

// problem is a finding of something that does not work.
func problem(fix, format string, args ...any) []doctor.Finding {
	return []doctor.Finding{{Level: doctor.Problem, Message: fmt.Sprintf(format, args...), Fix: fix}}
}

func fine(format string, args ...any) []doctor.Finding {
	return []doctor.Finding{{Level: doctor.OK, Message: fmt.Sprintf(format, args...)}}
}

// stampCheck asks whether a home's config is of this program's version.
func stampCheck(h home.Home, env Env) doctor.Check {
	return doctor.Check{Name: "config version", Run: func(context.Context) []doctor.Finding {
		if _, err := os.Stat(h.Config()); errors.Is(err, fs.ErrNotExist) {
			return problem("hermes-appliance up makes one", "%s is not there", h.Config())
		}
		m := migrator(env)
		r, err := m.Preview(h, migrate.Options{})
		switch {
		case exitcode.Of(err) == exitcode.Newer:
			return []doctor.Finding{{Level: doctor.Warning, Message: "the config is newer than this program; the gateway runs and writes nothing to it", Fix: "hermes-appliance update, or the program that wrote it"}}
		case err != nil:
			return problem("", "%v", err)
		case r.Plan != nil && r.Plan.Pending():
			f := problem("hermes-appliance migrate --home "+quoteShell(h.Dir), "the config is older than this program: the gateway would not start")[0]
			return []doctor.Finding{f.Mended(func(ctx context.Context) error {
				rec := newRecorder(env)
				m.Ahead = func(ctx context.Context, h home.Home) error {
					rec.record(ctx, h, generation.Found)
					return nil
				}
				r, err := m.Apply(ctx, h, migrate.Options{})
				if r.Applied {
					rec.record(ctx, h, generation.Migrate)
				}
				return err
			})}
		}
		return fine("%d", migrate.Latest())
	}}
}

// settingsCheck reports what config check finds.
func settingsCheck(h home.Home, env Env) doctor.Check {
	return doctor.Check{Name: "config", Run: func(context.Context) []doctor.Finding {
		in, err := checkInput(h, env)
		if errors.Is(err, fs.ErrPermission) {
			return problem("run as the user who owns the home", "%v", err)
		} else if err != nil {
			return problem("", "%v", err)
		}
		var out []doctor.Finding
		for _, p := range config.Check(in) {
			f := doctor.Finding{Fix: p.Fix}
			switch p.Severity {
			case config.Fault:
				f.Level = doctor.Problem
			case config.Warning:
				f.Level = doctor.Warning
			case config.Info:
				f.Level = doctor.Note
			}
			where := p.File
			if p.Line > 0 {
				where += fmt.Sprintf(", line %d", p.Line)
			}
			f.Message = where + ": " + strings.TrimPrefix(strings.Join(p.Path, ".")+" ", " ") + p.Msg
			out = append(out, f)
		}
		if out == nil {
			return fine("nothing to complain about")
		}
		return out
	}}
}

// gatewayCheck asks the gateway how it is.
func gatewayCheck(h home.Home, env Env) doctor.Check {
	return doctor.Check{Name: "gateway", Run: func(ctx context.Context) []doctor.Finding {
		doc, err := gatewayStatus(ctx, h, env)
		switch {
		case err != nil:
			return problem("hermes-appliance logs", "%v", err)
		case !doc.Running && doc.Status != nil && doc.Status.Reason != "":
			return []doctor.Finding{{Level: doctor.Warning, Message: "it does not run; the last one ended with: " + doc.Status.Reason, Fix: "hermes-appliance up"}}
		case !doc.Running:
			return []doctor.Finding{{Level: doctor.Note, Message: "it does not run", Fix: "hermes-appliance up"}}
		}
		out := fine("it runs, process %d", doc.Status.PID)
		for name, p := range doc.Status.Platforms {
			if p.State == "failed" || p.Attention {
				out = append(out, doctor.Finding{Level: doctor.Problem, Message: name + ": " + p.Message})
			}
		}
		return out
	}}
}

// databaseCheck looks at what the last gateway said of state.db, and whether somebody put its
// parts in the way.
func databaseCheck(h home.Home) doctor.Check {
	return doctor.Check{Name: "database", Run: func(context.Context) []doctor.Finding {
		path := filepath.Join(h.Dir, "state.db")
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fine("there is none yet")
		case err != nil:
			return problem("run as the user who owns the home", "%v", err)
		case !info.Mode().IsRegular():
			return problem("move it away", "%s is no file", path)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return problem("run as the user who owns the home", "%v", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		var head [16]byte
		if n, err := f.Read(head[:]); info.Size() > 0 && (err != nil || string(head[:n]) != "SQLite format 3\x00") {
			return problem("restore it from a backup beside it", "%s is no SQLite database", path)
		}
		return fine("%d MB", info.Size()>>20)
	}}
}

// outlookCheck asks what each profile would find: its model, and for the launch profile the
// API's port.
func outlookCheck(h home.Home, env Env, offline bool) doctor.Check {
	return doctor.Check{Name: "model and API", Run: func(ctx context.Context) []doctor.Finding {
		quiet := slog.New(slog.DiscardHandler)
		e, err := appliance.NewEnvironments(appliance.Options{Launch: h, Environ: childenv.TakeEnviron(), Log: quiet, Latest: migrate.Latest()})
		if err != nil {
			return problem("", "%v", err)
		}
		rt := appliance.NewRuntime(ctx, appliance.RuntimeOptions{Environments: e, Log: quiet, Now: env.Now})
		defer rt.Close(context.WithoutCancel(ctx)) //nolint:errcheck // it has started nothing
		list, err := rt.Outlooks(ctx)
		if err != nil {
			return problem("", "%v", err)
		}
		client := model.New(nil)
		defer client.Close()
		var out []doctor.Finding
		for _, o := range list {
			out = append(out, modelFindings(ctx, client, o, env.Now, offline)...)
			out = append(out, apiFindings(ctx, h, o)...)
		}
		return out
	}}
}

func modelFindings(ctx context.Context, client *model.Client, o appliance.Outlook, now func() time.Time, offline bool) []doctor.Finding {
	who := o.Home.Profile
	switch {
	case o.Err != nil:
		return problem("", "%s cannot be served: %v", who, o.Err)
	case o.ModelErr != nil:
		return problem("", "%s: %v", who, o.ModelErr)
	case o.Model.APIMode == model.RehearsalMode:
		return []doctor.Finding{{Level: doctor.Note, Message: who + ": no provider is configured; the built-in rehearsal model answers", Fix: "put a provider's key into " + o.Home.Env()}}
	case offline:
		return fine("%s: %s of %s, not asked", who, o.Model.Model, o.Model.Provider)
	}
	r, err := client.Reach(ctx, o.Model)
	switch {
	case err != nil:
		return problem("check the network and model.base_url", "%s: %s cannot be reached: %v", who, o.Model.Provider, err)
	case r.Status == 401 || r.Status == 403:
		return problem("put a key that counts into "+o.Home.Env(), "%s: %s refuses the key (%d)", who, o.Model.Provider, r.Status)
	}
	out := fine("%s: %s of %s answers", who, o.Model.Model, o.Model.Provider)
	if skew := now().Sub(r.Date).Abs(); !r.Date.IsZero() && skew > 5*time.Minute {
		out = append(out, doctor.Finding{Level: doctor.Warning, Message: fmt.Sprintf("this clock and that of %s differ by %s", o.Model.Provider, skew.Round(time.Minute)), Fix: "set the clock, e.g. timedatectl set-ntp true"})
	}
	return out
}

// apiFindings say whether the API could listen; a port that this home's own gateway has is in
// order.
func apiFindings(ctx context.Context, h home.Home, o appliance.Outlook) []doctor.Finding {
	if o.APIErr != nil {
		return problem("", "%s: the API does not start: %v", o.Home.Profile, o.APIErr)
	}
	if o.Address == "" {
		return nil
	}
	if _, running, err := gateway.Running(h); err == nil && running {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return problem("set API_SERVER_PORT in "+o.Home.Env()+", or end what has the port", "the API cannot listen on %s: %v", o.Address, err)
	}
	if err := l.Close(); err != nil {
		return problem("", "%v", err)
	}
	return fine("the API's port %s is free", o.Address)
}

// engineCheck asks the container engine of a profile that runs commands in docker.
func engineCheck(h home.Home, env Env) doctor.Check {
	return doctor.Check{Name: "sandbox", Run: func(ctx context.Context) []doctor.Finding {
		v, err := viewSandbox(ctx, env, h)
		if err != nil {
			return problem("start Docker, or join its group", "%v", err)
		}
		if v.engine == nil {
			return fine("commands run in the %s backend", v.policy.Backend())
		}
		defer v.close(ctx) //nolint:errcheck // nothing is torn down
		q, err := v.engine.Pending(ctx, v.spec)
		switch {
		case err != nil:
			return problem("", "%v", err)
		case q != nil:
			return []doctor.Finding{{Level: doctor.Note, Message: fmt.Sprintf("made from %s, and the default is %s now", q.Current, q.Target), Fix: "hermes-appliance sandbox switch, or keep"}}
		}
		return fine("docker at %s, image %s", v.engine.Host(), v.spec.Image)
	}}
}
