// SPDX-License-Identifier: MIT

package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hermes-appliance/hermes-appliance/appliance"
	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/home"
	"github.com/hermes-appliance/hermes-appliance/appliance/metrics"
	"github.com/hermes-appliance/hermes-appliance/internal/exitcode"
)

type metricsOptions struct {
	homeOptions
	json bool
}

func newMetrics(st *state) *cobra.Command {
	var o metricsOptions
	cmd := &cobra.Command{
		Use: "metrics [FLAGS]", Short: "Show a profile's counters, and whether it counts",
		Long: "Prints how often edits, commands and replies of the model went well or wrong, day by day (UTC). A profile counts\n" +
			"only with telemetry.shared_metrics.enabled: true; the numbers stay in its home, and nothing is ever sent.",
		DisableFlagsInUseLine: true, Example: "  hermes-appliance metrics --profile work --json", Args: cobra.NoArgs,
	}
	cmd.RunE = handler(st, func(_ context.Context, env Env) error { return o.run(env) })
	exits(cmd, exitcode.OK, exitcode.Error, exitcode.Usage)
	o.register(cmd)
	cmd.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

// metricsDoc is the result of metrics --json.
type metricsDoc struct {
	Profile  string         `json:"profile"`
	On       bool           `json:"counts"` // from the next turn on
	By       metrics.Source `json:"decided_by"`
	File     string         `json:"file"`
	Counters []metrics.Row  `json:"counters"`
}

func (o *metricsOptions) run(env Env) error {
	h, err := o.locate(env)
	if err != nil {
		return err
	}
	c, err := config.Load(h, config.Options{AdminDir: home.AdminDir(env.Getenv)})
	if err != nil {
		return err
	}
	d := metricsDoc{Profile: h.Profile, File: metrics.Path(h.Dir), Counters: []metrics.Row{}}
	d.On, d.By = appliance.Metered(h, c.With(nil), env.Getenv)
	rows, err := metrics.Read(h.Dir)
	if err != nil {
		return err
	}
	d.Counters = append(d.Counters, rows...)
	if o.json {
		return printJSON(env.Stdout, envelope{Schema: schemaVersion, Command: "metrics", Result: d})
	}
	_, err = fmt.Fprint(env.Stdout, d.text())
	return err
}

func (d metricsDoc) text() string {
	var b strings.Builder
	set := Name + " config set " + strings.Join(metrics.Key(), ".")
	if d.Profile != home.Default {
		set += " --profile " + d.Profile
	}
	by := map[metrics.Source]string{
		metrics.FromProfile: "its config says so", metrics.FromPerson: "telemetry-consent.json says so",
		metrics.FromDeployment: metrics.ConsentVar + " says so", metrics.FromDefault: "nobody turned it on",
	}[d.By]
	if d.On {
		fmt.Fprintf(&b, "%s counts (%s); to stop: %s false\n", d.Profile, by, set)
	} else {
		fmt.Fprintf(&b, "%s does not count (%s); to start: %s true\n", d.Profile, by, set)
	}
	last := ""
	for _, r := range d.Counters {
		if head := r.Day + " " + r.Name; head != last {
			last = head
			fmt.Fprintf(&b, "\n%s\n", head)
		}
		fmt.Fprintf(&b, "%8d ", r.Value)
		for _, k := range slices.Sorted(maps.Keys(r.Dims)) {
			fmt.Fprintf(&b, " %s=%s", k, r.Dims[k])
		}
		b.WriteByte('\n')
	}
	return b.String()
}
