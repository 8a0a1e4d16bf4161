// SPDX-License-Identifier: MIT

package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// NoAuth lets everybody in where it is written as the secret of a route. It is for trying things out.
const NoAuth = "INSECURE_NO_AUTH"

// replayWindow is how old a signed time may be.
const replayWindow = 5 * time.Minute

// proof is how a request says that it comes from a sender who knows the secret.
type proof struct {
	name  string
	check func(secret string, body []byte) bool
	// token proofs are the secret itself: no body is needed to check them.
	token bool
	// legacy proofs hold no time: what was captured can be sent again for ever.
	legacy bool
}

// proofOf finds the one kind of proof that a request commits to; a second kind is not looked
// at when the first is wrong, or whoever captured a request could strip the better one. A
// header that comes twice is no proof. ok is false when there is none.
func proofOf(h http.Header, now time.Time) (p proof, ok bool) {
	one := func(name string) string {
		if v := h.Values(name); len(v) == 1 {
			return v[0]
		}
		return ""
	}
	for _, prefix := range []string{"Svix-", "Webhook-"} {
		if h.Get(prefix+"Signature") == "" {
			continue // GitLab sends the other two headers in any case
		}
		id, at := one(prefix+"Id"), one(prefix+"Timestamp")
		return proof{name: "standard webhooks", check: func(secret string, body []byte) bool {
			return id != "" && fresh(at, now) && standard(secret, id, at, one(prefix+"Signature"), body)
		}}, true
	}
	body := func(name, header, prefix string, legacy bool) (proof, bool) {
		given := one(header)
		return proof{name: name, legacy: legacy, check: func(secret string, body []byte) bool {
			sum, found := strings.CutPrefix(given, prefix)
			return found && sameHex(sum, mac(secret, body))
		}}, true
	}
	token := func(name, given string) (proof, bool) {
		return proof{name: name, token: true, check: func(secret string, _ []byte) bool { return same(given, secret) }}, true
	}
	switch {
	case h.Get("Linear-Signature") != "":
		return body("linear", "Linear-Signature", "", false)
	case h.Get("X-Hub-Signature-256") != "":
		return body("github", "X-Hub-Signature-256", "sha256=", false)
	case h.Get("X-Gitlab-Token") != "":
		return token("gitlab token", one("X-Gitlab-Token"))
	case h.Get("X-Webhook-Signature-V2") != "":
		given, at := one("X-Webhook-Signature-V2"), one("X-Webhook-Timestamp")
		return proof{name: "generic v2", check: func(secret string, body []byte) bool {
			return fresh(at, now) && sameHex(given, mac(secret, []byte(at+"."), body))
		}}, true
	case h.Get("X-Webhook-Signature") != "":
		return body("generic v1", "X-Webhook-Signature", "", true)
	}
	scheme, given, _ := strings.Cut(one("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") && given != "" {
		return token("bearer token", given)
	}
	return proof{name: "none"}, false
}

func mac(secret string, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, []byte(secret))
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}

// sameHex compares a checksum with one written in hexadecimal digits, in constant time.
func sameHex(given string, want []byte) bool {
	got, err := hex.DecodeString(given)
	return err == nil && hmac.Equal(got, want)
}

// same compares two texts in a time that tells nothing about where they differ, nor how long
// the secret is.
func same(given, secret string) bool {
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(secret))
	return secret != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// fresh reports whether a Unix time, as it was signed, is near now.
func fresh(at string, now time.Time) bool {
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || n < 0 || n > 1<<40 {
		return false
	}
	age := now.Sub(time.Unix(n, 0))
	return age <= replayWindow && age >= -replayWindow
}

// standard checks a list of "v1,<base64>" over "<id>.<time>.<body>", as Standard Webhooks and
// Svix write it; while a secret is changed there is more than one.
func standard(secret, id, at, given string, body []byte) bool {
	key := secret
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(raw) == 0 {
			return false
		}
		key = string(raw)
	}
	want := mac(key, []byte(id+"."+at+"."), body)
	for part := range strings.FieldsSeq(given) {
		version, sum, _ := strings.Cut(part, ",")
		got, err := base64.StdEncoding.DecodeString(sum)
		if version == "v1" && err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}
