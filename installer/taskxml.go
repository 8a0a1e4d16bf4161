// SPDX-License-Identifier: MIT

package installer

import (
	"encoding/xml"
	"html"
	"maps"
	"slices"
	"strings"
)

// taskValues are the values of a task's definition, by their place in it. The scheduler rewrites
// definitions: what it leaves out has its default, what it adds is one.
type taskValues map[string][]string

// taskXML reads a definition, with the words about its encoding left out. What is none has no
// values.
func taskXML(text string) taskValues {
	_, body, ok := strings.Cut(text, "<Task")
	if !ok {
		return nil
	}
	v := taskValues{}
	d := xml.NewDecoder(strings.NewReader("<Task" + body))
	var path []string
	said := ""
	for {
		tok, err := d.Token()
		if err != nil {
			return v
		}
		switch t := tok.(type) {
		case xml.StartElement:
			path, said = append(path, t.Name.Local), ""
		case xml.CharData:
			said += string(t)
		case xml.EndElement:
			if place := strings.Join(path[1:], "/"); strings.TrimSpace(said) != "" {
				v[place] = append(v[place], strings.TrimSpace(said))
			}
			path, said = path[:len(path)-1], ""
		}
	}
}

// off reports whether somebody switched the task off.
func (v taskValues) off() bool { return slices.Contains(v["Settings/Enabled"], "false") }

// taskDefaults are what the scheduler takes where a definition says nothing.
func taskDefaults() map[string]string {
	return map[string]string{
		"Settings/MultipleInstancesPolicy": "IgnoreNew", "Settings/DisallowStartIfOnBatteries": "true", "Settings/StopIfGoingOnBatteries": "true",
		"Settings/AllowHardTerminate": "true", "Settings/StartWhenAvailable": "false", "Settings/ExecutionTimeLimit": "PT72H", "Settings/Priority": "7",
		"Settings/RunOnlyIfNetworkAvailable": "false", "Settings/RunOnlyIfIdle": "false", "Settings/WakeToRun": "false", "Settings/Hidden": "false",
		"Settings/AllowStartOnDemand": "true", "Triggers/LogonTrigger/Enabled": "true", "Principals/Principal/RunLevel": "LeastPrivilege",
	}
}

// differs names the first place where a registered task is not what it shall be; "" = nowhere.
// How a user is called is not compared: the scheduler has its own names for people. Whether it is
// switched off is another question, see off.
func (v taskValues) differs(want taskValues) string {
	def := taskDefaults()
	value := func(v taskValues, place string) []string {
		if got := v[place]; got != nil || def[place] == "" {
			return got
		}
		return []string{def[place]}
	}
	places := slices.Concat(slices.Collect(maps.Keys(v)), slices.Collect(maps.Keys(want)))
	slices.Sort(places)
	for _, place := range places {
		switch {
		case strings.HasPrefix(place, "RegistrationInfo/"), strings.HasSuffix(place, "/UserId"), strings.HasPrefix(place, "Settings/IdleSettings/"),
			place == "Settings/Enabled", place == "Settings/UseUnifiedSchedulingEngine", place == "Settings/DisallowStartOnRemoteAppSession":
			continue
		}
		if !slices.Equal(value(v, place), value(want, place)) {
			return place
		}
	}
	return ""
}

// taskHome is the directory that a task's definition works in.
func taskHome(data []byte) string {
	_, rest, ok := strings.Cut(utf16Text(data), "<WorkingDirectory>")
	dir, _, ok2 := strings.Cut(rest, "</WorkingDirectory>")
	if !ok || !ok2 {
		return ""
	}
	return html.UnescapeString(dir)
}
