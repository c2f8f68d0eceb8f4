package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/idemgen/idemgen/runtime/dynamostore"
	"github.com/idemgen/idemgen/runtime/internal/testenv"
	"github.com/idemgen/idemgen/runtime/storetest"
)

// credentials are those of the environment; emulators take any.
func credentials(context.Context) (aws.Credentials, error) {
	return aws.Credentials{
		AccessKeyID:     env("AWS_ACCESS_KEY_ID", "test"),
		SecretAccessKey: env("AWS_SECRET_ACCESS_KEY", "test"),
		SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
	}, nil
}

func region() string { return env("AWS_REGION", "eu-central-1") }

// newClient returns a client of the endpoint.
func newClient(endpoint string, changes ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       region(),
		Credentials:  aws.CredentialsProviderFunc(credentials),
		HTTPClient:   &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
	}, changes...)
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// server is one that tests run on.
type server struct {
	name         string
	url          func(testing.TB) string
	transactions bool
	ttl          bool
	pages        bool // a scan ends after 1 MB
}

var (
	dynalite = server{name: "Dynalite", url: testenv.Dynalite, pages: true}
	kumo     = server{name: "Kumo", url: testenv.Kumo, transactions: true, ttl: true}
	service  = server{name: "Service", url: testenv.DynamoDB, transactions: true, ttl: true, pages: true}
	servers  = []server{dynalite, kumo, service}
)

// tables are the names of those that tests of one process share, by endpoint.
var tables sync.Map

// table returns a table of records.
func (s server) table(t testing.TB) string {
	t.Helper()
	return s.shared(t, "records", func(ctx context.Context, client *dynamodb.Client, name string) error {
		if s.ttl {
			return dynamostore.CreateTable(ctx, client, name)
		}
		_, err := client.CreateTable(ctx, dynamostore.TableInput(name))
		return err
	})
}

// business returns a table of effects, whose key is the string "label".
func (s server) business(t testing.TB) string {
	t.Helper()
	return s.shared(t, "effects", func(ctx context.Context, client *dynamodb.Client, name string) error {
		_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
			TableName:            aws.String(name),
			BillingMode:          types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("label"), AttributeType: types.ScalarAttributeTypeS}},
			KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("label"), KeyType: types.KeyTypeHash}},
		})
		return errors.Join(err, ready(ctx, client, name))
	})
}

// ready waits until a table can be used.
func ready(ctx context.Context, client *dynamodb.Client, name string) error {
	return dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, time.Second
	}).Wait(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(name)}, time.Minute)
}

// shared makes a table once. On the service itself it has to be deleted by hand:
// its name begins with idemgen-test.
func (s server) shared(t testing.TB, kind string, create func(context.Context, *dynamodb.Client, string) error) string {
	t.Helper()
	url := s.url(t)
	once, _ := tables.LoadOrStore(url+kind, sync.OnceValues(func() (string, error) {
		name := fmt.Sprintf("idemgen-test-%s-%d", kind, time.Now().UnixNano())
		client := newClient(url)
		return name, errors.Join(create(context.Background(), client, name), ready(context.Background(), client, name))
	}))
	name, err := once.(func() (string, error))()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// prefixOf is a prefix that no other test has.
func prefixOf(t testing.TB) string {
	return fmt.Sprintf("%.30s-%d:", t.Name(), time.Now().UnixNano())
}

// open returns a store of its own on s.
func (s server) open(t testing.TB, client *dynamodb.Client, opts ...dynamostore.Option) *dynamostore.Store {
	t.Helper()
	opts = append([]dynamostore.Option{dynamostore.WithPrefix(prefixOf(t))}, opts...)
	if !s.ttl {
		opts = append(opts, dynamostore.WithoutTTL())
	}
	store, err := dynamostore.New(t.Context(), client, s.table(t), opts...)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

type item = map[string]types.AttributeValue

// increment counts an effect.
func increment(table, label string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName:                 aws.String(table),
		Key:                       item{"label": text(label)},
		UpdateExpression:          aws.String("ADD n :one"),
		ExpressionAttributeValues: item{":one": number(1)},
	}}
}

// effects counts what increment has committed.
func effects(ctx context.Context, client *dynamodb.Client, table, label string) (int, error) {
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: item{"label": text(label)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil || len(out.Item) == 0 {
		return 0, err
	}
	n, ok := out.Item["n"].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("effect %v", out.Item)
	}
	return strconv.Atoi(n.Value)
}

// advance moves all records that begin with prefix d back in time, and deletes
// those whose time to live is over, as DynamoDB does sooner or later.
func advance(ctx context.Context, client *dynamodb.Client, table, prefix string, d time.Duration) error {
	for pages := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{
		TableName: aws.String(table), ConsistentRead: aws.Bool(true),
	}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, i := range page.Items {
			id, _ := i["id"].(*types.AttributeValueMemberS)
			if id == nil || !strings.HasPrefix(id.Value, prefix) || i["status"] == nil {
				continue
			}
			for name, unit := range map[string]time.Duration{"created_at": time.Millisecond, "expires_at": time.Millisecond, "ttl": time.Second} {
				n, err := strconv.ParseInt(i[name].(*types.AttributeValueMemberN).Value, 10, 64)
				if err != nil {
					return err
				}
				i[name] = number(n - int64(d/unit))
			}
			if ttl, _ := strconv.ParseInt(i["ttl"].(*types.AttributeValueMemberN).Value, 10, 64); ttl < time.Now().Unix() {
				if _, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: item{"id": id}}); err != nil {
					return err
				}
				continue
			}
			if _, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestConformance runs the suite on each server, on those without transactions
// without effects.
//
// Covers STO-20.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			client, other := newClient(s.url(t)), newClient(s.url(t))
			business := s.business(t)
			open := func(t *testing.T) storetest.Fixture[*dynamostore.Tx] {
				prefix := prefixOf(t)
				line := &line{RoundTripper: http.DefaultTransport}
				own := newClient(s.url(t), func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: line} })
				f := storetest.Fixture[*dynamostore.Tx]{
					Store:   s.open(t, own, dynamostore.WithPrefix(prefix)),
					Replica: s.open(t, other, dynamostore.WithPrefix(prefix)),
					Advance: func(ctx context.Context, d time.Duration) error {
						return advance(ctx, client, s.table(t), prefix, d)
					},
					Cut: func() { line.cut.Store(true) },
				}
				if s.transactions {
					f.Effect = func(_ context.Context, tx *dynamostore.Tx, label string) error {
						return tx.Queue(increment(business, prefix+label))
					}
					f.Effects = func(ctx context.Context, label string) (int, error) {
						return effects(ctx, client, business, prefix+label)
					}
				}
				return f
			}
			queue := func(writes ...types.TransactWriteItem) func(context.Context, *dynamostore.Tx) error {
				return func(_ context.Context, tx *dynamostore.Tx) error { return tx.Queue(writes...) }
			}
			faults := map[string]func(context.Context, *dynamostore.Tx) error{
				"empty":       queue(types.TransactWriteItem{}),
				"own table":   queue(increment(s.table(t), "label")),
				"twice":       queue(increment(business, "label"), increment(business, "label")),
				"too many":    queue(many(business, 100)...),
				"no such key": queue(types.TransactWriteItem{Delete: &types.Delete{TableName: aws.String(business)}}),
			}
			if s.transactions {
				faults["condition"] = queue(increment(business, "other"), absent(business, "absent"))
				faults["no table"] = queue(increment(business+"-none", "label"))
			}
			noEffects := ""
			if !s.transactions {
				noEffects = "the emulator has no transactions"
			}
			storetest.Run(t, storetest.Harness[*dynamostore.Tx]{Open: open, NoEffects: noEffects, Faults: faults, MaxAnswer: dynamostore.MaxAnswer})
		})
	}
}

// line is a connection that can be cut.
type line struct {
	http.RoundTripper
	cut atomic.Bool
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	if l.cut.Load() {
		return nil, errors.New("the line is cut")
	}
	return l.RoundTripper.RoundTrip(r)
}

// many are n increments of different effects.
func many(table string, n int) (writes []types.TransactWriteItem) {
	for i := range n {
		writes = append(writes, increment(table, fmt.Sprint(i)))
	}
	return writes
}

// absent is a condition that does not hold.
func absent(table, label string) types.TransactWriteItem {
	return types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{
		TableName: aws.String(table), Key: item{"label": text(label)}, ConditionExpression: aws.String("attribute_exists(label)"),
	}}
}
