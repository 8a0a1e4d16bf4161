// SPDX-License-Identifier: MIT

package migrate

func v015() Step {
	return Step{
		To: 15, ID: "15-interim-messages",
		Title:  "display.interim_assistant_messages got a default; only the version changes",
		Detail: "Some upstream builds wrote the new default into the file, where it would have stayed for ever. A default belongs to the loader: nothing is written but the version.",
	}
}
