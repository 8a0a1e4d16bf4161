// SPDX-License-Identifier: MIT

package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hermes-appliance/hermes-appliance/appliance/model"
)

// body reads the JSON object of a request into v and returns its bytes. Unknown fields are
// left alone: clients send many that mean nothing here.
func (c *call) body(v any) ([]byte, error) {
	if kind := c.r.Header.Get("Content-Type"); kind != "" {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != "application/json" && !strings.HasSuffix(media, "+json") && !loose(media) {
			return nil, &failure{
				status: http.StatusUnsupportedMediaType, code: "unsupported_media_type", message: "the body must be JSON",
				hint: "send the header Content-Type: application/json",
			}
		}
	}
	rc := http.NewResponseController(c.w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) //nolint:errcheck // not every writer has one
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.s.bodyLimit))
	_ = rc.SetReadDeadline(time.Time{}) //nolint:errcheck // not every writer has one
	if err != nil {
		if big := (*http.MaxBytesError)(nil); errors.As(err, &big) {
			return nil, &failure{
				status: http.StatusRequestEntityTooLarge, code: "request_too_large",
				message: "the request is larger than " + size(big.Limit), hint: "send large pictures by URL",
			}
		}
		return nil, bad("invalid_body", "", "the body could not be read to its end")
	}
	return data, decode(data, v)
}

// loose are the media types of clients that do not say what they send.
func loose(media string) bool {
	return media == "text/plain" || media == "application/octet-stream" || media == "application/x-www-form-urlencoded"
}

// size is a limit in words.
func size(n int64) string {
	if n >= 1<<20 {
		return printable(json.Number(itoa(n>>20)).String() + " MiB")
	}
	return itoa(n) + " bytes"
}

// decode reads exactly one JSON object.
func decode(data []byte, v any) error {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		data = []byte("{}")
	}
	if data[0] != '{' {
		return bad("invalid_json", "", "the body must be a JSON object")
	}
	if err := json.Unmarshal(data, v); err != nil {
		var f *failure
		var kind *json.UnmarshalTypeError
		switch {
		case errors.As(err, &f):
			return f
		case errors.As(err, &kind):
			field := strings.TrimPrefix(kind.Field, "selection.") // a part of several bodies, not of the JSON
			return bad("invalid_type", field, "%s: a value of type %s cannot be used here", field, kind.Value)
		}
		return bad("invalid_json", "", "the body is no JSON: %s", printable(err.Error()))
	}
	return nil
}

// content is the content of a message: a text, or a list of parts.
type content struct{ parts []model.Part }

// UnmarshalJSON takes what chat completions and responses have for contents. A part that is
// neither text nor picture is refused: the model would not see it.
func (c *content) UnmarshalJSON(data []byte) error {
	c.parts = nil
	switch data[0] {
	case 'n':
		return nil
	case '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		c.parts = []model.Part{{Text: text}}
		return nil
	case '{':
		data = append(append([]byte{'['}, data...), ']')
	case '[':
	default:
		return bad("invalid_content", "content", "content must be a text or a list of parts")
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for _, raw := range list {
		p, err := part(raw)
		if err != nil {
			return err
		}
		c.parts = append(c.parts, p)
	}
	return nil
}

// part reads one part of a content.
func part(raw json.RawMessage) (model.Part, error) {
	if raw[0] == '"' {
		var text string
		err := json.Unmarshal(raw, &text)
		return model.Part{Text: text}, err
	}
	var p struct {
		Type  string          `json:"type"`
		Text  string          `json:"text"`
		Image json.RawMessage `json:"image_url"`
		// refusal is how an assistant's earlier answer may be sent back
		Refusal string `json:"refusal"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return model.Part{}, bad("invalid_content_part", "content", "a part of a content must be an object with a type")
	}
	switch p.Type {
	case "text", "input_text", "output_text":
		return model.Part{Text: p.Text}, nil
	case "refusal":
		return model.Part{Text: p.Refusal}, nil
	case "image_url", "input_image":
		link, err := imageURL(p.Image)
		return model.Part{Image: &model.Image{URL: link}}, err
	}
	return model.Part{}, &failure{
		status: http.StatusBadRequest, code: "unsupported_content_type", param: "content",
		message: "content parts of type " + printable(p.Type) + " are not supported", hint: "text and image_url are",
	}
}

// imageURL reads {"url": …} or a plain URL, and lets through what a model can be shown.
func imageURL(raw json.RawMessage) (string, error) {
	var link string
	var object struct {
		URL string `json:"url"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &link) != nil && json.Unmarshal(raw, &object) != nil {
		return "", bad("invalid_content_part", "image_url", "image_url must be a URL or {\"url\": …}")
	}
	if link == "" {
		link = object.URL
	}
	if len(link) >= 5 && strings.EqualFold(link[:5], "data:") {
		if kind, _, ok := strings.Cut(link[5:], ","); ok && len(kind) >= 6 && strings.EqualFold(kind[:6], "image/") {
			return link, nil
		}
		return "", &failure{
			status: http.StatusBadRequest, code: "unsupported_content_type", param: "image_url",
			message: "only pictures may be sent as data: URLs", hint: "data:image/png;base64,…",
		}
	}
	if u, err := url.Parse(link); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", bad("invalid_image_url", "image_url", "image_url must be http, https or data:image/…")
	}
	return link, nil
}

// visible reports whether there is something to say to a model.
func (c content) visible() bool {
	for _, p := range c.parts {
		if p.Image != nil || strings.TrimSpace(p.Text) != "" {
			return true
		}
	}
	return false
}

func (c content) text() string { return model.Message{Parts: c.parts}.Text() }
