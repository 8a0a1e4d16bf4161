// SPDX-License-Identifier: MIT

package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-appliance/hermes-appliance/appliance/config"
	"github.com/hermes-appliance/hermes-appliance/appliance/secret"
	"github.com/hermes-appliance/hermes-appliance/installer/fleet"
)

// platformKeys are the variables that make a platform connect as somebody; two profiles with
// the same value would be the same one.
func platformKeys() map[string][]string {
	return map[string][]string{
		"bluebubbles": {"BLUEBUBBLES_PASSWORD"}, "dingtalk": {"DINGTALK_CLIENT_ID"}, "discord": {"DISCORD_BOT_TOKEN"}, "email": {"EMAIL_ADDRESS"},
		"feishu": {"FEISHU_APP_ID"}, "homeassistant": {"HASS_TOKEN"}, "matrix": {"MATRIX_ACCESS_TOKEN"}, "mattermost": {"MATTERMOST_TOKEN"},
		"qqbot": {"QQ_APP_ID"}, "signal": {"SIGNAL_ACCOUNT"}, "slack": {"SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"}, "telegram": {"TELEGRAM_BOT_TOKEN"},
		"wecom": {"WECOM_BOT_ID"}, "weixin": {"WEIXIN_TOKEN"}, "whatsapp_cloud": {"WHATSAPP_CLOUD_ACCESS_TOKEN"}, "yuanbao": {"YUANBAO_APP_KEY"},
	}
}

// configKeys are the keys of a platform's section that hold such a value.
func configKeys() []string {
	return []string{"token", "api_key", "app_id", "client_id", "bot_id", "project_secret"}
}

// portBinders are upstream's platforms that listen on a port, with the connection mode in which
// they do, "" = always. Those of the first two answer below /p/<profile>/, too.
func portBinders() map[string]string {
	return map[string]string{
		"api_server": "", "webhook": "", "bluebubbles": "", "feishu": "webhook", "line": "", "msgraph_webhook": "", "sms": "", "teams": "",
		"wecom_callback": "", "whatsapp_cloud": "",
	}
}

// factReader reads one profile.
type factReader struct {
	view    config.View
	scope   *secret.Scope
	file    string              // its .env
	process func(string) string // the environment, for the launch profile; nil = not this profile's

	platforms map[string]map[string]any // what the config says of each, extra on top
}

func scopeLookup(s *secret.Scope) config.Lookup {
	return func(name string) (string, bool) {
		v, ok := s.Lookup(name)
		return v.Text.Reveal(), ok
	}
}

// sections merges the places where a platform's settings may stand, as the adapters read them.
func (r *factReader) sections() error {
	r.platforms = map[string]map[string]any{}
	for _, path := range [][]string{{"platforms"}, {"gateway", "platforms"}} {
		m, err := r.view.Map(path...)
		if err != nil {
			return err
		}
		for name, v := range m {
			section, _ := v.(map[string]any)
			r.add(name, section)
		}
	}
	m, err := r.view.Map("gateway", "api_server")
	r.add("api_server", m)
	return err
}

func (r *factReader) add(name string, section map[string]any) {
	if r.platforms[name] == nil {
		r.platforms[name] = map[string]any{}
	}
	maps.Copy(r.platforms[name], section)
	if extra, ok := section["extra"].(map[string]any); ok {
		maps.Copy(r.platforms[name], extra)
	}
}

// variable returns what the profile has under a name, and where from.
func (r *factReader) variable(name string) (value, origin string) {
	if v, ok := r.scope.Lookup(name); ok && !v.Text.Empty() {
		switch v.Origin.Kind {
		case secret.DotEnv:
			origin = r.file
		case secret.Launch:
			origin = fleet.FromEnvironment
		default:
			origin = v.Origin.String()
		}
		return strings.TrimSpace(v.Text.Reveal()), origin
	}
	if r.process != nil {
		if v := strings.TrimSpace(r.process(name)); v != "" {
			return v, fleet.FromEnvironment
		}
	}
	return "", ""
}

// text is a setting of a platform: the variable's word before the config's.
func (r *factReader) text(platform, variable, key string) string {
	if v, _ := r.variable(variable); variable != "" && v != "" {
		return v
	}
	if v, ok := r.platforms[platform][key]; ok && v != nil {
		return strings.TrimSpace(fmt.Sprint(v))
	}
	return ""
}

// claims are the credentials of the platforms that are not off.
func (r *factReader) claims(file string) (out []fleet.Claim) {
	names := slices.Collect(maps.Keys(platformKeys()))
	for name := range r.platforms {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		enabled, said := r.platforms[name]["enabled"]
		if said && !truthy(fmt.Sprint(enabled)) {
			continue
		}
		for _, variable := range platformKeys()[name] {
			if v, origin := r.variable(variable); v != "" {
				out = append(out, fleet.Claim{Platform: name, Fingerprint: fingerprint(name, v), Keys: variable, Origin: origin})
			}
		}
		if !said { // a section alone does not turn a platform on
			continue
		}
		for _, key := range configKeys() {
			if v, ok := r.platforms[name][key]; ok && v != nil && fmt.Sprint(v) != "" {
				out = append(out, fleet.Claim{Platform: name, Fingerprint: fingerprint(name, fmt.Sprint(v)), Keys: key, Origin: file})
			}
		}
	}
	return out
}

// fingerprint tells equal credentials from different ones and says nothing else of them.
func fingerprint(platform, value string) string {
	sum := sha256.Sum256([]byte(platform + "\x00" + strings.TrimSpace(value)))
	return hex.EncodeToString(sum[:8])
}

// listeners are the platforms that bind a port; of the default profile api_server and webhook
// are always among them, for the address under which the others will be found.
func (r *factReader) listeners(always bool) (out []fleet.Listener, err error) {
	for _, name := range slices.Sorted(maps.Keys(portBinders())) {
		l := fleet.Listener{Platform: name}
		on := truthy(r.text(name, "", "enabled"))
		switch name {
		case "api_server":
			on = truthy(r.text(name, "API_SERVER_ENABLED", "enabled"))
			l.Host, l.Port, l.Prefix = r.text(name, "API_SERVER_HOST", "host"), 8642, true
			if l.Host == "" {
				l.Host = "127.0.0.1"
			}
			l.Port, err = port(r.text(name, "API_SERVER_PORT", "port"), l.Port)
		case "webhook":
			on = truthy(r.text(name, "WEBHOOK_ENABLED", "enabled"))
			l.Host, l.Port, l.Prefix = r.text(name, "", "host"), 8644, true
			if l.Host == "" {
				l.Host = "0.0.0.0"
			}
			l.Port, err = port(r.text(name, "WEBHOOK_PORT", "port"), l.Port)
		default:
			mode := portBinders()[name]
			on = on && (mode == "" || strings.EqualFold(r.text(name, "", "connection_mode"), mode))
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if on || always && l.Prefix {
			out = append(out, l)
		}
	}
	return out, nil
}

func port(text string, otherwise int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 65535 {
		return 0, fmt.Errorf("%q is no port; expected a number up to 65535", text)
	}
	return n, nil
}
