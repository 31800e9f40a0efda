#!/bin/sh
# Formatting, vet and staticcheck, for the pure-Go build, the one with the local
# tokenizer where its library can be built, and other systems' files.
set -eu
files=$(gofmt -l cmd loadgen tokenize dataset metrics manifest bench)
if [ -n "$files" ]; then
	echo "not gofmt'ed: $files" >&2
	exit 1
fi
go vet ./...
go tool staticcheck ./...
GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go vet ./...
go mod tidy -diff
if dir=$(sh tokenize/build-lib.sh); then
	export CGO_LDFLAGS="-L$dir ${CGO_LDFLAGS:-}"
	go vet -tags hf ./...
	go tool staticcheck -tags hf ./tokenize/... ./cmd/...
elif [ $? -ne 3 ]; then
	exit 1
fi
echo "lint: clean"
