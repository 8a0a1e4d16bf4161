// SPDX-License-Identifier: MIT

package metrics

import (
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/internal/atomicfile"
)

// Key is where a profile's config says whether it counts, true or false.
func Key() []string { return []string{"telemetry", "shared_metrics", "enabled"} }

// ConsentVar is the variable with the answer of who runs the deployment.
const ConsentVar = "HERMES_SHARED_METRICS"

// Source is whose word decided.
type Source string

// The sources, in the order in which they are asked.
const (
	FromProfile    Source = "profile"    // the profile's own config
	FromPerson     Source = "person"     // the answer that upstream recorded for all profiles
	FromDeployment Source = "deployment" // ConsentVar
	FromDefault    Source = "default"    // nobody: off
)

// Profile is what a profile's config says at [Key].
type Profile struct {
	Has bool  // it says something
	On  bool  // what, if Err is nil
	Err error // it cannot be read as true or false
}

// Consent decides whether a profile counts, in upstream's order: its own config, the answer
// recorded in the root home (telemetry-consent.json), the deployment's variable, off. An answer
// that is there and cannot be read is off: nobody is counted by mistake.
func Consent(p Profile, root string, getenv func(string) string) (on bool, by Source) {
	if p.Has || p.Err != nil {
		return p.Err == nil && p.On, FromProfile
	}
	if share, recorded := recorded(root); recorded {
		return share, FromPerson
	}
	switch strings.ToLower(strings.TrimSpace(getenv(ConsentVar))) {
	case "":
		return false, FromDefault
	case "1", "true", "yes", "on":
		return true, FromDeployment
	}
	return false, FromDeployment
}

// recorded reads upstream's record of the person's answer.
func recorded(root string) (share, ok bool) {
	data, st, err := atomicfile.Read(filepath.Join(root, "telemetry-consent.json"))
	if err != nil || !st.Exists {
		return false, err != nil
	}
	var answer struct {
		Share *bool `json:"share"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || answer.Share == nil {
		return false, true
	}
	return *answer.Share, true
}
