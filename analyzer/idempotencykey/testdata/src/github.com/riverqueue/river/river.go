// Package river has the shape of River.
package river

import (
	"context"

	"github.com/riverqueue/river/rivertype"
)

type JobArgs interface{ Kind() string }

type InsertOpts struct{}

type Client[TTx any] struct{}

func (c *Client[TTx]) Insert(ctx context.Context, args JobArgs, opts *InsertOpts) (*rivertype.JobInsertResult, error) {
	return nil, nil
}

func (c *Client[TTx]) InsertTx(ctx context.Context, tx TTx, args JobArgs, opts *InsertOpts) (*rivertype.JobInsertResult, error) {
	return nil, nil
}

func (c *Client[TTx]) JobGet(ctx context.Context, id int64) (*rivertype.JobRow, error) {
	return nil, nil
}

func (c *Client[TTx]) JobGetTx(ctx context.Context, tx TTx, id int64) (*rivertype.JobRow, error) {
	return nil, nil
}

type Job[T JobArgs] struct {
	*rivertype.JobRow
	Args T
}
