// SPDX-License-Identifier: MIT

package migrate

import (
	"strings"
	"testing"

	"github.com/hermes-appliance/hermes-appliance/appliance/home"
)

// TestTemplateIsCurrent: a template whose version lags makes every new home migrate on its
// first run.
func TestTemplateIsCurrent(t *testing.T) {
	t.Parallel()
	src := home.Template()
	p, err := Released().Plan(Input{Config: src}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.From != Latest() || p.Pending() {
		t.Errorf("the template is at %d and pending %t; want %d and nothing to do", p.From, p.Pending(), Latest())
	}
	for _, image := range v048Images() {
		if strings.Contains(string(src), image) {
			t.Errorf("the template names the old image %s", image)
		}
	}
}
