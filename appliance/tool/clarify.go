// SPDX-License-Identifier: MIT

package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	maxChoices   = 4
	maxQuestions = 5
	recommended  = " (Recommended)"
)

// Question is one question to the user.
type Question struct {
	Text    string
	Choices []string // none = the user writes; the first is what the agent would take
	Many    bool     // several choices may be taken
}

// ErrNoAnswer says that the user did not answer in time.
var ErrNoAnswer = errors.New("the user did not answer in time")

// Asker puts a question to the user of a session and waits.
type Asker interface {
	// Ask returns what the user chose or wrote; nothing = skipped. [ErrNoAnswer] if they did not
	// answer in time.
	Ask(ctx context.Context, q Question) ([]string, error)
}

// Clarify returns the tool "clarify". A nil asker hides it: nobody can be asked.
func Clarify(asker Asker) Tool {
	choices := list("Up to 4 answers to choose from, the one you recommend first, each an item of its own. Leave out if the user shall write.", text("An answer"))
	many := flag("The user may take several choices")
	one := object(map[string]Schema{"id": text("Comes back with the answer"), "question": text("The question"), "choices": choices, "multi_select": many}, "question")
	return Tool{
		Name: "clarify", Toolset: "clarify",
		Available: func() bool { return asker != nil },
		Description: "Ask the user before you go on: which way, what is meant, what they think. Put answers to choose from into 'choices', never into the question. " +
			"Several independent questions go into one call with 'questions'. Not for confirming dangerous commands: the terminal tool asks by itself. Decide small things yourself.",
		Schema: object(map[string]Schema{
			"question":     text("The question alone, without its answers"),
			"choices":      choices,
			"multi_select": many,
			"questions":    list("2 to 5 independent questions instead of one", one),
		}),
		Run: func(ctx context.Context, a Args) (any, error) {
			if asker == nil {
				return nil, errors.New("nobody can be asked here: decide yourself and say what you assumed")
			}
			if several := a.List("questions"); len(several) > 0 {
				return askAll(ctx, asker, several)
			}
			return askOne(ctx, asker, a)
		},
	}
}

func askOne(ctx context.Context, asker Asker, a Args) (any, error) {
	q, err := question(a)
	if err != nil {
		return nil, err
	}
	answer, err := ask(ctx, asker, q)
	if errors.Is(err, ErrNoAnswer) {
		answer, err = "The user did not provide a response within the time limit. Use your best judgement to make the choice and proceed.", nil
	}
	return map[string]any{"question": q.Text, "choices_offered": offered(q), "user_response": answer}, err
}

func offered(q Question) any {
	if len(q.Choices) == 0 {
		return nil
	}
	return q.Choices
}

func askAll(ctx context.Context, asker Asker, several []any) (any, error) {
	if len(several) > maxQuestions {
		return nil, fmt.Errorf("at most %d questions in one call, not %d", maxQuestions, len(several))
	}
	var rows []map[string]any
	out := map[string]any{}
	gone := false
	for i, v := range several {
		a, ok := v.(map[string]any)
		if !ok {
			a = map[string]any{"question": v}
		}
		q, err := question(a)
		if err != nil {
			return nil, fmt.Errorf("questions[%d]: %w", i, err)
		}
		row := map[string]any{"question": q.Text, "choices_offered": offered(q), "user_response": ""}
		if id := Args(a).String("id"); id != "" {
			row["id"] = id
		}
		if !gone {
			answer, err := ask(ctx, asker, q)
			switch {
			case errors.Is(err, ErrNoAnswer):
				gone, out["timed_out"] = true, true
			case err != nil:
				return nil, err
			default:
				row["user_response"] = answer
			}
		}
		rows = append(rows, row)
	}
	out["responses"] = rows
	return out, nil
}

func question(a Args) (Question, error) {
	q := Question{Text: strings.TrimSpace(a.String("question")), Many: a.Bool("multi_select")}
	if q.Text == "" {
		return q, errors.New("the question is empty")
	}
	for _, v := range a.List("choices") {
		if c := label(v); c != "" {
			q.Choices = append(q.Choices, c)
		}
	}
	q.Choices = q.Choices[:min(len(q.Choices), maxChoices)]
	q.Many = q.Many && len(q.Choices) > 0
	return q, nil
}

// label is what a choice says: models send objects, or texts that hold one.
func label(v any) string {
	switch x := v.(type) {
	case string:
		x = strings.TrimSpace(x)
		var m map[string]any
		if strings.HasPrefix(x, "{") && json.Unmarshal([]byte(x), &m) == nil {
			return label(m)
		}
		return strings.TrimSpace(strings.TrimSuffix(x, recommended))
	case map[string]any:
		for _, k := range []string{"label", "description", "text", "title"} {
			if s, ok := x[k].(string); ok && strings.TrimSpace(s) != "" {
				return strings.TrimSpace(s)
			}
		}
	}
	return ""
}

// ask shows the first of several choices as recommended, and takes the word off the answer.
func ask(ctx context.Context, asker Asker, q Question) (any, error) {
	shown := q
	shown.Choices = append([]string{}, q.Choices...)
	if len(shown.Choices) > 1 {
		shown.Choices[0] += recommended
	}
	answers, err := asker.Ask(ctx, shown)
	if err != nil {
		return nil, err
	}
	answers = append([]string{}, answers...)
	for i := range answers {
		answers[i] = strings.TrimSpace(strings.TrimSuffix(answers[i], recommended))
	}
	if q.Many {
		return answers, nil
	}
	return strings.Join(answers, ", "), nil
}
