package openai

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/option"
)

// Post sends a body to the target's endpoint outside of any measurement and
// returns the whole answer. The error of a status that is one holds what the
// server said, without secrets.
func (c *Client) Post(ctx context.Context, body []byte) (answer []byte, err error) {
	var res, raw *http.Response
	err = c.target().Post(ctx, c.cfg.Endpoint, nil, &res, option.WithRequestBody("application/json", body), option.WithResponseInto(&raw))
	if raw == nil {
		return nil, err
	}
	defer raw.Body.Close()
	if raw.StatusCode/100 != 2 {
		answer, _ = io.ReadAll(io.LimitReader(raw.Body, errBodyMax))
		return nil, fmt.Errorf("HTTP %d: %s", raw.StatusCode, c.redact(errorText(answer)))
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(raw.Body) // which probeMax bounds
}
