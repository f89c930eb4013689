// Producers and consumers of franz-go at work, as lines on standard input ask, until it ends; then all are closed.
// It takes the lines of ../../WorkingClients.java; of a client's settings it reads bootstrap.servers, client.id,
// group.id and session.timeout.ms.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pace is what "send" or "work" last asked of a client.
type pace struct{ perSecond, bytes, workMs atomic.Int64 }

var paces sync.Map

func paceOf(name string) *pace {
	found, _ := paces.LoadOrStore(name, &pace{})
	return found.(*pace)
}

func main() {
	ctx, end := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch kind, name := words[0], words[1]; kind {
		case "send":
			paceOf(name).perSecond.Store(number(words[2]))
			paceOf(name).bytes.Store(number(words[3]))
		case "work":
			paceOf(name).workMs.Store(number(words[2]))
		case "producer", "consumer":
			run := produce
			if kind == "consumer" {
				run = consume
			}
			client := opened(kind, words[2], words[3:])
			clients.Add(1)
			go func() {
				defer clients.Done()
				run(ctx, client, words[2], paceOf(name))
				client.Close()
			}()
		default:
			panic("unknown line: " + lines.Text())
		}
	}
	end()
	clients.Wait()
	fmt.Println("closed")
}

func opened(kind, topic string, words []string) *kgo.Client {
	settings := map[string]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		settings[key] = value
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(settings["bootstrap.servers"], ",")...),
		kgo.ClientID(settings["client.id"]),
	}
	if kind == "consumer" {
		options = append(options,
			kgo.ConsumerGroup(settings["group.id"]),
			kgo.ConsumeTopics(topic),
			kgo.SessionTimeout(time.Duration(number(settings["session.timeout.ms"]))*time.Millisecond),
			kgo.AutoCommitInterval(time.Second),
		)
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	return client
}

func produce(ctx context.Context, client *kgo.Client, topic string, pace *pace) {
	for ctx.Err() == nil {
		value := make([]byte, pace.bytes.Load())
		client.Produce(ctx, &kgo.Record{Topic: topic, Value: value}, nil)
		sleep(ctx, time.Second/time.Duration(max(1, pace.perSecond.Load())))
	}
	flushed, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	_ = client.Flush(flushed)
}

func consume(ctx context.Context, client *kgo.Client, _ string, pace *pace) {
	for ctx.Err() == nil {
		if fetches := client.PollFetches(ctx); fetches.NumRecords() > 0 {
			sleep(ctx, time.Duration(pace.workMs.Load())*time.Millisecond)
		}
	}
}

func sleep(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

func number(word string) int64 {
	found, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic(err)
	}
	return found
}
