// SPDX-License-Identifier: MIT

package migrate_test

import (
	"testing"

	"github.com/hermes-appliance/hermes-appliance/migrate"
)

func TestApply(t *testing.T) {
	t.Parallel()
	h := oldFiles().lay(t, t.TempDir())
	m := migrator(nil)
	r := apply(t, m, h, migrate.Options{})
	if !r.Applied || r.Recovered != "" || r.Plan.From != 40 || r.Plan.To != migrate.Latest() {
		t.Errorf("got %+v", r)
	}
	wantFiles(t, h, newFiles())
	wantClean(t, h.Dir, h)
	wantBackups(t, h, map[string]string{
		"config.yaml.migrate-40-50.20260701-120000": oldConfig, ".env.migrate-40-50.20260701-120000": oldEnv,
		"SOUL.md.migrate-40-50.20260701-120000": oldSoul, "manifest.migrate-40-50.20260701-120000.json": "",
	})
}
