// A franz-go client at a node that has telemetry and no topic. Arguments: bootstrap servers, client id.
// It pings twice a second until its standard input ends or a line comes, then closes, and prints "closed".
// Telemetry begins with a client's first connection for producing or fetching, so it asks to produce, in vain, until one
// request was written: an attempt that ends before its connection is there, at its deadline for instance, begins nothing.
// It counts its pings, tells the node so as a metric of its own, and prints "pings N" itself.
// Its log, with the client instance id, goes to standard error.
package main

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	var pings atomic.Int64
	asked := &produceAsked{}
	counted := func() iter.Seq[kgo.Metric] {
		return func(yield func(kgo.Metric) bool) {
			yield(kgo.Metric{Name: "fleetgauge.test.pings", Type: kgo.MetricTypeSum, ValueInt: pings.Load()})
		}
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ClientID(os.Args[2]),
		kgo.UserMetricsFn(counted),
		kgo.WithHooks(asked),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelDebug, stamp)),
	)
	if err != nil {
		panic(err)
	}
	end := make(chan struct{})
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		close(end)
	}()
	for isRunning := true; isRunning; {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		err := client.Ping(ctx)
		if err == nil && !asked.Load() {
			request := kmsg.NewPtrProduceRequest()
			request.Acks = 1
			_, _ = client.Broker(nodeID).Request(ctx, request)
		}
		cancel()
		if err == nil {
			fmt.Println("pings", pings.Add(1))
		}
		select {
		case <-end:
			isRunning = false
		case <-time.After(500 * time.Millisecond):
		}
	}
	client.Close()
	fmt.Println("closed")
}

// produceAsked is true once a request to produce was written, on a connection that was set up for it.
type produceAsked struct{ atomic.Bool }

// OnBrokerWrite is called by the client after each request.
func (asked *produceAsked) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == 0 && err == nil {
		asked.Store(true)
	}
}

// nodeID is Fleetgauge's node.id if nothing else is configured.
const nodeID = 1

func stamp() string { return time.Now().Format("15:04:05.000 ") }
