package dynamostore

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// lease keeps a claim while work runs. Nothing runs for it before a third of
// the lease has passed.
type lease struct {
	*attempt
	work   context.CancelCauseFunc // cancels the context of work
	ctx    context.Context         // of the heartbeat
	cancel context.CancelFunc

	mu      sync.Mutex
	timer   *time.Timer
	until   time.Time // the claim is held for as long as this, if not longer
	ceiling time.Time
	refused error // why no answer may be stored any more
}

// retries is how often a heartbeat that fails is tried in a third of a lease.
const retries = 4

// hold begins the heartbeat of a claim that was made after since. The context
// it returns is that of work; the caller must call end.
func (a *attempt) hold(ctx context.Context, since time.Time) (context.Context, *lease) {
	work, cancelWork := context.WithCancelCause(ctx)
	beats, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &lease{
		attempt: a,
		work:    cancelWork,
		ctx:     beats,
		cancel:  cancel,
		until:   since.Add(a.cfg.lease),
		ceiling: since.Add(a.cfg.ceiling),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.wait(a.cfg.lease/3), l.beat)
	return work, l
}

// wait is d, or less where the ceiling comes before.
func (l *lease) wait(d time.Duration) time.Duration { return max(min(d, time.Until(l.ceiling)), 0) }

// beat extends the claim, or cancels work.
func (l *lease) beat() {
	sent := time.Now()
	if !sent.Before(l.ceiling) {
		l.refuse(errCeiling)
		return
	}
	l.mu.Lock()
	until := l.until
	l.mu.Unlock()
	ctx, cancel := context.WithDeadline(l.ctx, until)
	held, err := l.extend(ctx)
	cancel()

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ctx.Err() != nil:
	case err == nil && held:
		l.until = sent.Add(l.cfg.lease)
		l.timer.Reset(l.wait(l.cfg.lease / 3))
	case err == nil, !time.Now().Before(l.until):
		// Either another attempt has taken over, or it may have. Work is told;
		// whether it may complete, DynamoDB decides.
		l.work(errLeaseLost)
	default:
		l.timer.Reset(l.wait(l.cfg.lease / 3 / retries))
	}
}

// refuse cancels work and lets no answer be stored.
func (l *lease) refuse(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = cause
	l.work(cause)
}

// verdict says why no answer may be stored, or nil.
func (l *lease) verdict() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.refused
}

// end ends the heartbeat and the context of work. It may be called again.
func (l *lease) end() {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer.Stop()
	l.work(nil)
}

// extend makes the claim last for another lease, and reports whether it is
// still held.
func (a *attempt) extend(ctx context.Context) (held bool, err error) {
	until := time.Now().Add(a.cfg.lease)
	_, err = a.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                aws.String(a.table),
		Key:                      keyOf(a.id),
		UpdateExpression:         aws.String("SET lease_until = :until, #ttl = :ttl"),
		ConditionExpression:      aws.String(ours),
		ExpressionAttributeNames: use("#token", "#status", "#ttl"),
		ExpressionAttributeValues: item{
			":token": &types.AttributeValueMemberS{Value: a.token},
			":until": number(until.UnixMilli()),
			":ttl":   ttl(until),
		},
	})
	if isCode(err, "ConditionalCheckFailedException") {
		return false, nil
	}
	return err == nil, err
}
