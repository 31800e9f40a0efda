#!/bin/sh
# Builds libtokenizers.a, the library behind the build tag hf, once for a version
# and target, and prints the folder that holds it:
#
#	CGO_LDFLAGS="-L$(tokenize/build-lib.sh)" go build -tags hf ./cmd/servebench
#
# The Rust source is the one in the Go module cache that go.mod pins; what is
# changed in the build's own copy is said at patch_source below. Crates come from
# cargo's registry. Progress goes to standard error. CARGO_BUILD_TARGET names
# another target than this machine.
#
# Exit status: 0 the library is there, 3 no cargo or rustc, 1 anything else.
set -eu

module=github.com/daulet/tokenizers
revision=3 # of patch_source; a new one gets a folder of its own

say() { printf 'build-lib: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# patch_source changes the copied source in $1:
#  - tiktoken-rs, a git dependency, comes from the registry;
#  - a Rust panic while a tokenizer is read or ids are decoded becomes an error
#    (across extern "C" it would end the process; encode is guarded already);
#  - a NUL byte in a text, which ends a C string, travels as 0xC0 0x80.
#  - the allocator is mimalloc, the cache of words is larger, and encoding makes nothing but the
#    ids where only they are asked for.
# Names and signatures stay: an unchanged libtokenizers.a links as well (hf.go asks the version).
patch_source() {
	cargo_toml=$1/crates/tokenizers/Cargo.toml
	lib_rs=$1/crates/tokenizers/src/lib.rs
	edit "$cargo_toml" 1 's|^tiktoken-rs = .*git.*|tiktoken-rs = "=0.9.1"|' '^tiktoken-rs = "=0.9.1"'
	# Encoding makes many small allocations: a third of its time was the C library's malloc.
	printf '\n[dependencies.mimalloc]\nversion = "=0.1.52"\ndefault-features = false\n' >>"$cargo_toml"
	printf '\n[profile.release]\nlto = "thin"\ncodegen-units = 4\n' >>"$1/Cargo.toml"
	edit "$lib_rs" 2 's/match Tokenizer::from_bytes(bytes_slice) {/match guarded(|| Tokenizer::from_bytes(bytes_slice).map(with_cache)) {/' \
		'match guarded(|| Tokenizer::from_bytes'
	edit "$lib_rs" 1 's/match unified_tokenizer.decode(ids_slice, skip_special_tokens) {/match guarded(|| unified_tokenizer.decode(ids_slice, skip_special_tokens).map_err(|e| e.to_string().into())) {/' \
		'match guarded(|| unified_tokenizer.decode'
	edit "$lib_rs" 1 's/Ok(string) => match std::ffi::CString::new(string) {/Ok(string) => match std::ffi::CString::new(nul_out(string)) {/' \
		'CString::new(nul_out(string))'
	edit "$lib_rs" 1 's/let message_bytes = message_cstr.to_bytes();/let message_bytes = \&nul_in(message_cstr.to_bytes())[..];/' \
		'nul_in(message_cstr.to_bytes())'
	edit "$lib_rs" 10 's/std::ffi::CString::new(format!(\(.*\))).unwrap()/std::ffi::CString::new(format!(\1).replace(char::from(0), "?")).unwrap()/' \
		'replace(char::from(0), "?")).unwrap()'
	edit "$lib_rs" 1 's/unified_tokenizer.encode_with_details(message, options.add_special_tokens)/encode_asked(unified_tokenizer, message, options)/' \
		'encode_asked(unified_tokenizer, message, options)'
	edit "$lib_rs" 1 's/concat!(env!("CARGO_PKG_VERSION"), "/concat!(env!("CARGO_PKG_VERSION"), "+servebench.'"$revision"'/' \
		'"+servebench.'
	cat >>"$lib_rs" <<'RUST'

// Added by servebench's build-lib.sh.

/// Runs f; a panic becomes an error that holds its message.
fn guarded<T>(
    f: impl FnOnce() -> Result<T, Box<dyn std::error::Error + Send + Sync>>,
) -> Result<T, Box<dyn std::error::Error + Send + Sync>> {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)) {
        Ok(result) => result,
        Err(payload) => {
            let text = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("unknown");
            Err(format!("panic: {}", text).into())
        }
    }
}

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Remembers more words than the library's 10,000: prompts made of a vocabulary of 50,000 or more
/// meet each of them again and again.
fn with_cache(mut tokenizer: Tokenizer) -> Tokenizer {
    let mut model = tokenizer.get_model().clone();
    model.resize_cache(1 << 18);
    tokenizer.with_model(model);
    tokenizer
}

/// Encodes without what was not asked for: where only ids are, the library need not track offsets
/// nor make a string of every token.
fn encode_asked(
    tokenizer: &UnifiedTokenizer,
    message: &str,
    o: &tokenizers_encode_options,
) -> Result<EncodingDetails, Box<dyn std::error::Error>> {
    let more = o.return_type_ids || o.return_tokens || o.return_special_tokens_mask || o.return_attention_mask || o.return_offsets;
    match tokenizer {
        UnifiedTokenizer::HuggingFace(hf) if !more => {
            let encoding = hf.encode_fast(message, o.add_special_tokens).map_err(|e| format!("Encoding error: {}", e))?;
            Ok(EncodingDetails {
                ids: encoding.get_ids().to_vec(),
                type_ids: None,
                tokens: None,
                special_tokens_mask: None,
                attention_mask: None,
                offsets: None,
            })
        }
        _ => tokenizer.encode_with_details(message, o.add_special_tokens),
    }
}

/// Turns 0xC0 0x80, which stands for NUL in a C string, into NUL.
fn nul_in(bytes: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if !bytes.contains(&0xC0) {
        return bytes.into();
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&first, tail)) = rest.split_first() {
        if first == 0xC0 && tail.first() == Some(&0x80) {
            out.push(0);
            rest = &tail[1..];
        } else {
            out.push(first);
            rest = tail;
        }
    }
    out.into()
}

/// Turns NUL into 0xC0 0x80, which no valid UTF-8 holds.
fn nul_out(text: String) -> Vec<u8> {
    if !text.contains(char::from(0)) {
        return text.into_bytes();
    }
    text.bytes().flat_map(|b| if b == 0 { vec![0xC0, 0x80] } else { vec![b] }).collect()
}
RUST
}

# edit FILE COUNT SCRIPT WANT applies the sed script and demands that COUNT lines
# match WANT afterwards: another source than the known one must not build silently.
edit() {
	sed "$3" "$1" >"$1.new"
	mv "$1.new" "$1"
	found=$(grep -c -F "${4#^}" "$1" || true)
	[ "$found" -eq "$2" ] || die "$1 is not the source this script knows (${4#^}: $found lines, want $2)"
}

build() {
	work=$(mktemp -d "$base/.build.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	cp -R "$source/Cargo.toml" "$source/Cargo.lock" "$source/crates" "$work"
	chmod -R u+w "$work"
	patch_source "$work"
	say "building $module $version for $target (about a minute)"
	(cd "$work" && cargo build --release --target "$target" --target-dir "$work/target" -p tokenizers-ffi) >&2 9>&-
	mkdir -p "$folder"
	# By rename: a reader sees no library or a whole one, whoever builds beside us.
	mv -f "$work/target/$target/release/libtokenizers_ffi.a" "$folder/libtokenizers.a"
	say "built $folder/libtokenizers.a"
}

cd "$(dirname "$0")"
version=$(go list -m -f '{{.Version}}' "$module")
[ -n "$version" ] || die "go.mod names no version of $module"
if [ -n "${CARGO_BUILD_TARGET:-}" ]; then
	target=$CARGO_BUILD_TARGET
elif command -v cargo >/dev/null && command -v rustc >/dev/null; then
	target=$(rustc -vV | sed -n 's/^host: //p')
else
	say "no cargo: the local tokenizer needs Rust (https://rustup.rs); without it: CGO_ENABLED=0 go build ./cmd/servebench"
	exit 3
fi
cache=${XDG_CACHE_HOME:-${HOME:?neither XDG_CACHE_HOME nor HOME is set}/.cache}
base=$cache/servebench/libtokenizers
folder=$base/$version-r$revision-$target
if [ ! -f "$folder/libtokenizers.a" ]; then
	command -v cargo >/dev/null || { say "no cargo"; exit 3; }
	command -v cc >/dev/null || { say "no C compiler (cc): the local tokenizer needs one to link"; exit 3; }
	mkdir -p "$base"
	# Two at once: the second waits where flock exists, else both build and the last rename wins.
	exec 9>"$base/.lock"
	if command -v flock >/dev/null; then flock 9; fi
fi
if [ ! -f "$folder/libtokenizers.a" ]; then
	source=$(go list -m -f '{{.Dir}}' "$module")
	if [ -z "$source" ]; then
		go mod download "$module" >&2
		source=$(go list -m -f '{{.Dir}}' "$module")
	fi
	build
fi
printf '%s\n' "$folder"
