#!/bin/sh
# Every test with the race detector; with the local tokenizer where its library
# can be built, and the pure-Go build besides.
set -eu
# What takes the detector longest and is one thing after another (whole examples in
# processes of their own, searches of many files) is run once, without it.
slow='TestGateSalts|TestGatePairs|TestHostileTemplates|TestBounds|TestEveryFieldOfTheReferences|TestNoCanaryInAnyFile|TestManagedServersTellNothing|TestListOnSimLike|TestExamples|TestWorkflow|TestGitLabJob|TestGateAction|TestGateActionBuilds|TestOperatingCharacteristics|TestOperatingPicture|TestExperimentsTellNothing|TestManifestHostileInput|TestFittedEngineRepeatsTheExperiment|TestValidateRejectsMutations|TestRedactorFragments|TestRedactDocumentCanary'
if dir=$(sh tokenize/build-lib.sh); then
	CGO_LDFLAGS="-L$dir ${CGO_LDFLAGS:-}" CGO_ENABLED=1 go test -race -tags hf -skip "^($slow)\$" ./...
	CGO_ENABLED=0 go test ./tokenize/... ./cmd/... ./bench/ ./bench/gate/ ./manifest/
elif [ $? -eq 3 ]; then
	echo "test: no cargo, so the local tokenizer is not built and not tested" >&2
	go test -race ./...
else
	exit 1
fi
