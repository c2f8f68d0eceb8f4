package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// startTimeout bounds what New does.
const startTimeout = 15 * time.Second

// New returns a store on a table, which [CreateTable] makes. It verifies that
// the table is there and active, has the right key, and deletes expired records,
// and returns an error that says what to do where it is not so. It writes nothing.
func New(ctx context.Context, client *dynamodb.Client, table string, opts ...Option) (*Store, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if table == "" {
		return nil, errors.New("dynamostore: the table's name is empty")
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := verify(ctx, client, table, cfg.withoutTTL); err != nil {
		return nil, err
	}
	return &Store{client: client, table: table, cfg: cfg}, nil
}
