#!/bin/sh
# Builds the libFuzzer targets (tests/fuzz/fuzz_*.c) with AddressSanitizer and UndefinedBehaviorSanitizer, and runs each on a scratch copy of
# its corpus. Arguments: names of targets (default: all). FUZZ_SECONDS for each: default 60. What crashes lies in build/fuzz/artifacts.
# shellcheck disable=SC2086,SC2046,SC2016,SC2116
set -eu
cd "$(dirname "$0")/.."
seconds=${FUZZ_SECONDS:-60}
build=${BUILD:-build}/fuzz
clang=${FUZZ_CC:-clang}

can_fuzz() {
    echo 'int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n); int LLVMFuzzerTestOneInput(const unsigned char *d, unsigned long n) { return d && n ? 0 : 0; }' |
        "$clang" -x c -fsanitize=fuzzer,address,undefined -o "$build/probe" - 2>/dev/null
}

mkdir -p "$build/obj" "$build/artifacts"
if ! can_fuzz; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo apt-get update -q
    $sudo apt-get install -y -q --no-install-recommends clang libfuzzer-14-dev libclang-rt-14-dev
fi

targets=${*:-$(find tests/fuzz -name 'fuzz_*.c' -exec basename {} .c \; | sort)}
libraries="libzip jansson libuv libcrypto zlib"
flags="-std=gnu11 -D_GNU_SOURCE -I. -O1 -g -fno-omit-frame-pointer -fno-strict-aliasing -ffp-contract=off
       -fsanitize=address,undefined -fno-sanitize-recover=undefined $(pkg-config --cflags $libraries)"

# A makefile of its own, so that -j and time stamps do the rest. A library, so that a target links only what it needs.
{
    echo "all: $(for t in $targets; do printf '%s/%s ' "$build" "$t"; done)"
    echo ".PRECIOUS: $build/obj/%.o"
    echo "OBJECTS := \$(patsubst %.c,$build/obj/%.o,\$(shell find core -name '*.c' | sort))"
    printf '%s/obj/%%.o: %%.c\n\t@mkdir -p $(@D)\n\t%s %s $(EXTRA) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<\n' \
        "$build" "$clang" "$(echo $flags)"
    if [ "$(uname -m)" = x86_64 ]; then
        echo "$build/obj/core/tensor/%_avx2.o: EXTRA = -mavx2 -mf16c -mno-fma"
    fi
    printf '%s/core.a: $(OBJECTS)\n\t@rm -f $@\n\t%s rcs $@ $^\n' "$build" "${AR:-ar}"
    printf '%s/fuzz_%%: tests/fuzz/fuzz_%%.c %s/core.a\n\t%s %s -fsanitize=fuzzer -o $@ $^ %s -ldeflate -lpthread -lm\n' \
        "$build" "$build" "$clang" "$(echo $flags)" "$(echo $(pkg-config --libs $libraries))"
    echo "-include \$(OBJECTS:.o=.d)"
} >"$build/Makefile"
make -s --no-print-directory -f "$build/Makefile" -j "$(nproc)" all

failed=
for target in $targets; do
    scratch=$build/corpus/$target
    mkdir -p "$scratch"
    if [ -d "tests/fuzz/corpus/$target" ]; then
        cp -r "tests/fuzz/corpus/$target/." "$scratch/"
    else
        echo "$target: no corpus, starting from nothing"
    fi
    echo "== $target, $seconds seconds"
    "$build/$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=25 -print_final_stats=1 \
        -artifact_prefix="$build/artifacts/$target-" "$scratch" >"$build/$target.log" 2>&1 || failed="$failed $target"
    grep -a -E '^(SUMMARY|==[0-9]+== ?ERROR|stat::number_of_executed_units|stat::average_exec_per_sec|Test unit written)|DONE' \
        "$build/$target.log" || tail -n 5 "$build/$target.log"
done
if [ -n "$failed" ]; then
    echo "failed:$failed (logs and inputs: $build)"
    exit 1
fi
