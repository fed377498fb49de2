# ckptd: everything starts here. `make help` lists the targets.
#
# Knobs: CC=gcc|clang  BUILD=build  DEVELOPER=1 (-Werror)  SANITIZE=address,undefined|thread  PREFIX=/usr/local

# make has a CC of its own (cc), which ?= would keep.
ifeq ($(origin CC),default)
CC       := gcc
endif
BUILD    ?= build
PREFIX   ?= /usr/local
SANITIZE ?=
COMMIT   := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

LIBS     := libmicrohttpd jansson libzip libuv libcrypto zlib libseccomp sqlite3
WARNINGS := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wpointer-arith -Wformat=2
CFLAGS   ?= -O2 -g
# -ffp-contract=off: a fused multiply-add would change quantized codes. The rest is hardening.
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -I. $(WARNINGS) $(CFLAGS) -fno-strict-aliasing -ffp-contract=off -fPIE \
             $(if $(DEVELOPER),-Werror) \
             $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=undefined,-D_FORTIFY_SOURCE=2 -fstack-protector-strong -fstack-clash-protection) \
             $(shell pkg-config --cflags $(LIBS))
ALL_LDFLAGS = -pie -Wl,-z,relro,-z,now $(if $(SANITIZE),-fsanitize=$(SANITIZE)) $(LDFLAGS)
ALL_LIBS = $(shell pkg-config --libs $(LIBS)) -ldeflate -lpthread -lm

# One short line for each command; V=1 shows the whole of it.
Q := $(if $(V),,@)
SAY = $(if $(V),@:,@printf '  %-5s %s\n')

SOURCES := $(sort $(shell find core api server -name '*.c'))
OBJECTS := $(SOURCES:%.c=$(BUILD)/obj/%.o)
LIBRARY := $(BUILD)/libckptd.a
MAIN    := $(BUILD)/obj/server/main.o
UNIT    := $(patsubst tests/unit/%.c,$(BUILD)/test/%,$(wildcard tests/unit/test_*.c))
FUZZ    := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
REPLAY  := $(FUZZ:%=$(BUILD)/replay/%)

.PHONY: all help deps run demo test unit-test http-test hostile-test replay-test fault-test deploy-test image-test conformance lint format asan tsan fuzz bench install clean
all: $(BUILD)/ckptd ## build $(BUILD)/ckptd (after make deps)

help:
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

deps: ## install the Debian packages that building and testing need (root, or sudo)
	scripts/deps.sh

run: all ## start the daemon on 127.0.0.1:8080 with its data in ./build/data
	$(BUILD)/ckptd serve --data $(BUILD)/data

demo: ## install what is missing, build, start a daemon, convert a real checkpoint by curl, show the result
	scripts/demo.sh

test: ## install what is missing, build, run every test that needs Debian packages only
	scripts/deps.sh --if-missing
	+$(MAKE) --no-print-directory unit-test replay-test
	+$(MAKE) --no-print-directory http-test hostile-test
	+$(MAKE) --no-print-directory fault-test

unit-test: $(UNIT)
	@for t in $(UNIT); do echo "== $$t"; $$t >$$t.log 2>&1 || { tail -n 400 $$t.log; exit 1; }; grep -a -E 'PASSED|^skipped' $$t.log || true; done

replay-test: $(REPLAY)
	@set -e; for t in $(FUZZ); do $(BUILD)/replay/$$t tests/fuzz/corpus/$$t; done

http-test: $(BUILD)/ckptd
	python3 -m unittest discover -s tests/http -t tests/http

fault-test: $(BUILD)/ckptd ## kill, fill, lock, damage, stop and crowd the daemon (2 minutes; as root on small disks, too)
	CKPTD_BUILD=$(BUILD) python3 tests/fault/run.py

hostile-test: $(BUILD)/ckptd
	CKPTD_BUILD=$(BUILD) python3 -m unittest discover -s tests/hostile -t tests/hostile

conformance: all ## compare with the real torch, MLX and safetensors (makes its own cached venv)
	tests/conformance/run.sh

lint: all ## formatting, static analysis, layer rules, generated documents, the API document
	BUILD=$(BUILD) scripts/lint.sh

deploy-test: all ## hold deploy/ against the tools that read it (makes its own cached venv)
	python3 -W error -m unittest discover -s tests/deploy -t tests/deploy
	scripts/check_deploy.py --ckptd $(BUILD)/ckptd

image-test: ## build and run the container's stages without a container engine (root; needs debootstrap)
	scripts/replay_dockerfile.py --build-arg COMMIT=$(COMMIT)

format: ## apply clang-format
	clang-format -i $$(git ls-files '*.c')

asan: ## the test suites under AddressSanitizer and UndefinedBehaviorSanitizer
	+$(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined CFLAGS='-O1 -g' unit-test replay-test
	+CKPTD_BUILD=$(BUILD)/asan $(MAKE) --no-print-directory BUILD=$(BUILD)/asan SANITIZE=address,undefined CFLAGS='-O1 -g' http-test hostile-test

tsan: ## the same under ThreadSanitizer
	+$(MAKE) --no-print-directory BUILD=$(BUILD)/tsan SANITIZE=thread CFLAGS='-O1 -g' unit-test
	+CKPTD_BUILD=$(BUILD)/tsan $(MAKE) --no-print-directory BUILD=$(BUILD)/tsan SANITIZE=thread CFLAGS='-O1 -g' http-test

fuzz: ## run the libFuzzer targets, FUZZ_SECONDS each (default 60)
	scripts/fuzz.sh

bench: all ## ratios against cp, mx.quantize and torch, in one run
	tests/bench/run.sh

install: all ## copy the binary to $(DESTDIR)$(PREFIX)/bin
	install -D -m 755 $(BUILD)/ckptd $(DESTDIR)$(PREFIX)/bin/ckptd

clean: ## remove what was built
	rm -rf $(BUILD)

$(BUILD)/ckptd: $(MAIN) $(LIBRARY)
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(ALL_LIBS)

$(LIBRARY): $(filter-out $(MAIN),$(OBJECTS))
	$(SAY) AR $@
	$(Q)rm -f $@
	$(Q)$(AR) rcs $@ $^

$(BUILD)/obj/%.o: %.c
	$(SAY) CC $<
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c -o $@ $<

# Only version.o depends on the commit, and only when the commit changed.
$(BUILD)/obj/core/base/version.o: EXTRA_CFLAGS = -DCK_COMMIT='"$(COMMIT)"'
$(BUILD)/obj/core/base/version.o: $(BUILD)/commit-$(COMMIT)
$(BUILD)/commit-$(COMMIT):
	@mkdir -p $(BUILD) && rm -f $(BUILD)/commit-* && touch $@

# The contract and the JSON made of it are part of the binary. The paths are relative to here, as .incbin takes them.
$(BUILD)/obj/api/openapi.o: EXTRA_CFLAGS = -DCK_OPENAPI_YAML='"openapi.yaml"' -DCK_OPENAPI_JSON='"$(BUILD)/openapi.json"'
$(BUILD)/obj/api/openapi.o: openapi.yaml $(BUILD)/openapi.json
$(BUILD)/openapi.json: openapi.yaml scripts/openapi_json.py
	$(SAY) JSON $@
	@mkdir -p $(@D)
	$(Q)python3 scripts/openapi_json.py $< $@

# The AVX2 kernels are compiled for that CPU and called only after a run-time check.
$(BUILD)/obj/core/tensor/%_avx2.o: EXTRA_CFLAGS = $(if $(filter x86_64,$(shell uname -m)),-mavx2 -mf16c -mno-fma) -O3
# The gather loops are the hot part of every layout rule, the casts that of every dtype=.
$(BUILD)/obj/core/tensor/execute.o $(BUILD)/obj/core/tensor/gather.o $(BUILD)/obj/core/tensor/cast.o $(BUILD)/obj/core/tensor/bytes.o $(BUILD)/obj/core/tensor/dequantize.o: EXTRA_CFLAGS = -O3

$(BUILD)/test/%: tests/unit/%.c $(LIBRARY)
	$(SAY) TEST $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-missing-prototypes -MMD -MP $(ALL_LDFLAGS) -o $@ $< $(LIBRARY) -lcmocka $(ALL_LIBS)

# This one lets allocations fail.
WRAPPED := malloc calloc realloc reallocarray strdup asprintf vasprintf __asprintf_chk __vasprintf_chk free
$(BUILD)/test/test_sweeps: private LDFLAGS += $(WRAPPED:%=-Wl,--wrap=%)

# The fuzz targets with a plain main that replays files: the corpus is a test of every build.
$(BUILD)/replay/%: tests/fuzz/%.c tests/fuzz/replay_main.c $(LIBRARY)
	$(SAY) TEST $@
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-missing-prototypes -MMD -MP $(ALL_LDFLAGS) -o $@ $(filter %.c,$^) $(LIBRARY) $(ALL_LIBS)

-include $(OBJECTS:.o=.d) $(UNIT:=.d)
