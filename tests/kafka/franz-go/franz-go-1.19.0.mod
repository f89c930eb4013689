module fleetgauge.test/franz-go

go 1.23.8

require github.com/twmb/franz-go v1.19.0

require (
	github.com/klauspost/compress v1.18.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.22 // indirect
	github.com/twmb/franz-go/pkg/kmsg v1.11.2 // indirect
)
