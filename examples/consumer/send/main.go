// Send puts an order onto the stream that the consumer reads. Run it with:
// go run ./examples/consumer/send order-1001 '{"customer": "ann", "cents": 1999}'
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	url := flag.String("nats", nats.DefaultURL, "the broker")
	shop := flag.String("shop", "acme", "whose order it is")
	flag.Parse()
	if err := run(*url, *shop, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "send:", err)
		os.Exit(1)
	}
}

func run(url, shop string, args []string) error {
	if len(args) != 2 {
		return errors.New("usage: send [-nats URL] [-shop NAME] ORDER-ID JSON")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ack, err := js.Publish(ctx, "orders."+shop+".placed", []byte(args[1]), jetstream.WithMsgID(args[0]))
	switch {
	case err != nil:
		return err
	case ack.Duplicate:
		fmt.Println("the broker has it already")
	default:
		fmt.Println("sent")
	}
	return nil
}
