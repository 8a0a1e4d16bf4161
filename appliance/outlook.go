// SPDX-License-Identifier: MIT

package appliance

import (
	"context"
	"net"
	"strconv"

	"github.com/hermes-appliance/hermes-appliance/appliance/gateway"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// Outlook is what a profile of the gateway would find if it started now.
type Outlook struct {
	Home home.Home
	Err  error // the profile cannot be served; the rest is empty then

	Model    model.Route // that a turn asks first
	ModelErr error       // why none can be asked

	Address string // HOST:PORT of the API, "" where it is off; of the launch profile only
	APIErr  error  // why it could not start
}

// Outlooks look at every profile that is served, without starting anything of it. Vaults are
// asked. The error is one that keeps all of them from being served.
func (r *Runtime) Outlooks(ctx context.Context) ([]Outlook, error) {
	ids, err := r.Profiles()
	if err != nil {
		return nil, err
	}
	var out []Outlook
	for i, id := range ids {
		if i == 0 {
			id = "" // the launch profile
		}
		out = append(out, r.outlook(ctx, id))
	}
	return out, nil
}

func (r *Runtime) outlook(ctx context.Context, id string) Outlook {
	t, err := r.Tenant(id)
	if err != nil {
		return Outlook{Home: home.Home{Profile: id}, Err: err}
	}
	o := Outlook{Home: t.home}
	_, b, err := t.bind(ctx)
	if err != nil {
		o.Err = err
		return o
	}
	list, err := routes(b.view, b.lookup, gateway.RouteAsk{})
	if err != nil {
		o.ModelErr = err
	} else {
		o.Model = list[0]
	}
	set, err := t.apiSettings(b)
	switch {
	case err != nil:
		o.APIErr = err
	case set.enabled && set.keyFault() != nil:
		o.APIErr = set.keyFault()
	case set.enabled && id == "":
		o.Address = net.JoinHostPort(set.host, strconv.Itoa(set.port))
	}
	return o
}
