// SPDX-License-Identifier: MIT

package session

import (
	"context"
	"database/sql"
	"errors"
	"slices"
)

// Usage is what model calls used and cost, in tokens and US dollars.
type Usage struct {
	Calls         int64   `json:"api_call_count"`
	Input         int64   `json:"input_tokens"`
	Output        int64   `json:"output_tokens"`
	CacheRead     int64   `json:"cache_read_tokens"`
	CacheWrite    int64   `json:"cache_write_tokens"`
	Reasoning     int64   `json:"reasoning_tokens"`
	EstimatedCost float64 `json:"estimated_cost_usd"`
	ActualCost    float64 `json:"actual_cost_usd"`
	CostStatus    string  `json:"cost_status,omitempty"`
	CostSource    string  `json:"cost_source,omitempty"`
	Provider      string  `json:"billing_provider,omitempty"`
	BaseURL       string  `json:"billing_base_url,omitempty"`
	BillingMode   string  `json:"billing_mode,omitempty"`
}

// ModelUsage is the usage of a model for one kind of work in one session.
type ModelUsage struct {
	Model string `json:"model"`
	Task  string `json:"task,omitempty"` // "" = the conversation itself; compression, title_generation, vision …
	Usage
}

// numbers are the values that add up, in the order of the columns below.
func (u Usage) numbers() []any {
	return []any{u.Calls, u.Input, u.Output, u.CacheRead, u.CacheWrite, u.Reasoning, u.EstimatedCost, u.ActualCost}
}

// addUp adds the values to the columns of a row that has them.
const addUp = `api_call_count = COALESCE(api_call_count, 0) + ?, input_tokens = COALESCE(input_tokens, 0) + ?, output_tokens = COALESCE(output_tokens, 0) + ?,
	cache_read_tokens = COALESCE(cache_read_tokens, 0) + ?, cache_write_tokens = COALESCE(cache_write_tokens, 0) + ?,
	reasoning_tokens = COALESCE(reasoning_tokens, 0) + ?, estimated_cost_usd = COALESCE(estimated_cost_usd, 0) + ?,
	actual_cost_usd = COALESCE(actual_cost_usd, 0) + ?, cost_status = COALESCE(?, cost_status), cost_source = COALESCE(?, cost_source)`

// AddUsage adds what calls of a model used. What auxiliary work used (task is not "") counts
// for the model only, not among the session's own numbers, as upstream counts.
func (s *Store) AddUsage(ctx context.Context, session, model, task string, u Usage) error {
	if model == "" {
		model = "unknown"
	}
	return s.update(ctx, func(ctx context.Context, tx *sql.Tx) error {
		status := []any{text(u.CostStatus), text(u.CostSource)}
		if task == "" {
			set := addUp + ", billing_provider = COALESCE(billing_provider, ?), billing_base_url = COALESCE(billing_base_url, ?), billing_mode = COALESCE(billing_mode, ?), model = COALESCE(model, ?)"
			args := append(append(u.numbers(), status...), text(u.Provider), text(u.BaseURL), text(u.BillingMode), text(model))
			if err := changeIn(ctx, tx, session, set, args...); err != nil {
				return err
			}
		} else if err := open(ctx, tx, session); err != nil && !errors.As(err, new(*ContinuedError)) {
			return err
		}
		return s.addModelUsage(ctx, tx, session, model, task, u)
	})
}

// addModelUsage adds to the row of a model. It looks before it inserts and does not rely on the
// key of the table: files exist whose key lacks the task.
func (s *Store) addModelUsage(ctx context.Context, tx *sql.Tx, session, model, task string, u Usage) error {
	now := seconds(s.opts.Now())
	args := append(append(u.numbers(), text(u.CostStatus), text(u.CostSource), now), session, clean(model), clean(u.Provider), clean(u.BaseURL), clean(u.BillingMode))
	update := func(where string, more ...any) (bool, error) {
		res, err := tx.ExecContext(ctx, "UPDATE session_model_usage SET "+addUp+", last_seen = ? WHERE session_id = ? AND model = ? AND billing_provider = ? AND billing_base_url = ? AND billing_mode = ?"+where,
			append(slices.Clip(args), more...)...)
		if err != nil {
			return false, err
		}
		n, err := res.RowsAffected()
		return n > 0, err
	}
	if done, err := update(" AND COALESCE(task, '') = ?", clean(task)); done || err != nil {
		return err
	}
	res, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO session_model_usage (api_call_count, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens,
		reasoning_tokens, estimated_cost_usd, actual_cost_usd, cost_status, cost_source, last_seen, session_id, model, billing_provider, billing_base_url, billing_mode, task, first_seen)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(slices.Clip(args), clean(task), now)...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); n > 0 || err != nil {
		return err
	}
	_, err = update("")
	return err
}

// UsageByModel is the usage of a session, a row for each model and task.
func (s *Store) UsageByModel(ctx context.Context, session string) ([]ModelUsage, error) {
	rows, err := s.r.QueryContext(ctx, `SELECT model, task, api_call_count, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens,
		estimated_cost_usd, actual_cost_usd, cost_status, cost_source, billing_provider, billing_base_url, billing_mode
		FROM session_model_usage WHERE session_id = ? ORDER BY first_seen, model, task`, session)
	if err != nil {
		return nil, fault(err)
	}
	var out []ModelUsage
	err = each(rows, func() error {
		var m ModelUsage
		err := rows.Scan(&m.Model, str(&m.Task), &m.Calls, &m.Input, &m.Output, &m.CacheRead, &m.CacheWrite, &m.Reasoning,
			&m.EstimatedCost, &m.ActualCost, str(&m.CostStatus), str(&m.CostSource), str(&m.Provider), str(&m.BaseURL), str(&m.BillingMode))
		out = append(out, m)
		return err
	})
	return out, fault(err)
}
