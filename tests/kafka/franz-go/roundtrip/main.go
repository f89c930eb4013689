// A round trip of franz-go: BOOTSTRAP TOPIC PARTITIONS RECORDS. Sends records to each partition idempotently, then in a
// transaction that is committed, and in one that is aborted; then two members, one after the other, read what is
// committed, half each. Prints a line for each member: the group's generation, and its records.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	ctx, end := context.WithTimeout(context.Background(), 2*time.Minute)
	defer end()
	servers, topic := kgo.SeedBrokers(strings.Split(os.Args[1], ",")...), os.Args[2]
	partitions, records := number(os.Args[3]), number(os.Args[4])

	idempotent := opened(servers, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	send(ctx, idempotent, topic, "plain", partitions, records)
	idempotent.Close()

	transactional := opened(servers, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionalID(topic))
	for _, outcome := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		check(transactional.BeginTransaction())
		send(ctx, transactional, topic, fmt.Sprintf("committed=%t", bool(outcome)), partitions, records)
		check(transactional.EndTransaction(ctx, outcome))
	}
	transactional.Close()

	committed := 2 * partitions * records
	for _, wanted := range []int{committed / 2, committed - committed/2} {
		fmt.Println(read(ctx, servers, topic, wanted))
	}
}

// send waits for the answers of all records.
func send(ctx context.Context, client *kgo.Client, topic, text string, partitions, records int) {
	for partition := range partitions {
		for record := range records {
			value := []byte(fmt.Sprintf("%s %d", text, record))
			client.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(partition), Value: value}, func(_ *kgo.Record, err error) {
				check(err)
			})
		}
	}
	check(client.Flush(ctx))
}

// read is one member of the topic's group, for that many records.
func read(ctx context.Context, servers kgo.Opt, topic string, wanted int) string {
	client := opened(
		servers, kgo.ConsumeTopics(topic), kgo.ConsumerGroup(topic), kgo.DisableAutoCommit(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	defer client.Close()
	var taken []*kgo.Record
	for len(taken) < wanted {
		fetches := client.PollRecords(ctx, wanted-len(taken))
		check(fetches.Err0())
		taken = append(taken, fetches.Records()...)
	}
	check(client.CommitRecords(ctx, taken...))
	_, generation := client.GroupMetadata()
	return fmt.Sprintf("generation %d: %d records", generation, len(taken))
}

func opened(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(options...)
	check(err)
	return client
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func number(word string) int {
	found, err := strconv.Atoi(word)
	check(err)
	return found
}
