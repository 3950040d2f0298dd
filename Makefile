# Two commands are enough on a fresh machine: `make demo` and `make test`.
# Servers that are up already are used when their addresses are given: POSTGRES_URL=... MYSQL_URL=... make test

.DEFAULT_GOAL := help
.PHONY: help demo demo-dart test test-dart install loom soak bench servers down

with_addresses = addresses=$$(scripts/servers env) && eval "$$addresses" &&

# The demo shows what pipelining is worth: a database on the same machine is asked without TLS, which the servers offer and
# the driver would take. Wherever it is otherwise, and whatever an address says of it itself, stays as it is.
plaintext_on_loopback = case "$$POSTGRES_URL" in \
	*\?*) ;; \
	*@127.0.0.1:*) export POSTGRES_URL="$$POSTGRES_URL?sslmode=disable" ;; \
	esac; \
	case "$$MYSQL_URL" in \
	*\?*) ;; \
	*@127.0.0.1:*) export MYSQL_URL="$$MYSQL_URL?ssl-mode=disabled&allow-public-key-retrieval=true" ;; \
	esac;

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' Makefile

demo: ## the demo server in the foreground, on port 8080 or $PORT
	@test -n "$$DATABASE_URL" || scripts/servers up postgres mysql
	cargo build --release -p cenote-demo
	@if test -z "$$DATABASE_URL"; then $(with_addresses) true; fi; $(plaintext_on_loopback) exec cargo run --quiet --release -p cenote-demo

# Compiled, as a server is deployed.
demo-dart: ## the demo in Dart, one isolate per core, in the foreground, on port 8080 or $PORT
	@test -n "$$DATABASE_URL" || scripts/servers up postgres mysql
	cargo build --release -p cenote-ffi
	@mkdir -p target/dart
	cd dart && ../scripts/dart pub get --offline >/dev/null && ../scripts/dart compile exe -o ../target/dart/demo example/demo.dart
	@if test -z "$$DATABASE_URL"; then $(with_addresses) true; fi; $(plaintext_on_loopback) \
		export CENOTE_LIBRARY="$(CURDIR)/target/release/libcenote.so"; exec scripts/dart --exec "$(CURDIR)/target/dart/demo"

test: ## every test, on real servers
	scripts/servers up
	@$(with_addresses) if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run --workspace --no-fail-fast && cargo test --doc --workspace; \
	else \
		cargo test --workspace --no-fail-fast; \
	fi && cargo test -p cenote-ffi --features inject-panics --test panics
	@$(MAKE) --no-print-directory test-dart

# What is installed is built here, unless it is said where it is.
PREFIX ?= /usr/local
LIBRARY ?= target/release
install: ## the C library, its headers and cenote.pc; PREFIX=/usr/local
	@test "$(LIBRARY)" != target/release || cargo build --release -p cenote-ffi
	install -d "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(PREFIX)/lib/pkgconfig"
	install -m 644 ffi/include/cenote.h ffi/include/cenote_block.h "$(DESTDIR)$(PREFIX)/include"
	install -m 644 "$(LIBRARY)/libcenote.a" "$(DESTDIR)$(PREFIX)/lib"
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml) && \
	abi=$$(sed -n 's/^#define CENOTE_ABI_VERSION_MAJOR //p' ffi/include/cenote.h) && \
	set -x && \
	install -m 755 "$(LIBRARY)/libcenote.so" "$(DESTDIR)$(PREFIX)/lib/libcenote.so.$$version" && \
	ln -sf "libcenote.so.$$version" "$(DESTDIR)$(PREFIX)/lib/libcenote.so.$$abi" && \
	ln -sf "libcenote.so.$$abi" "$(DESTDIR)$(PREFIX)/lib/libcenote.so" && \
	sed -e "s|@PREFIX@|$(PREFIX)|" -e "s|@VERSION@|$$version|" ffi/cenote.pc.in \
		> "$(DESTDIR)$(PREFIX)/lib/pkgconfig/cenote.pc"

# As a script, and compiled: what a compiled program may do differs.
test-dart: ## the Dart package's tests alone; FILTER="case 17"
	scripts/servers up
	cargo build -p cenote-ffi
	@mkdir -p target/dart
	cd dart && ../scripts/dart pub get --offline >/dev/null && ../scripts/dart compile exe -o ../target/dart/tests test/run.dart
	@$(with_addresses) export CENOTE_LIBRARY="$(CURDIR)/target/debug/libcenote.so" && cd dart && \
		../scripts/dart run test/run.dart $(if $(FILTER),"$(FILTER)") && \
		../scripts/dart --exec "$(CURDIR)/target/dart/tests" $(if $(FILTER),"$(FILTER)")

SECONDS ?= 60

soak: ## a minute of drops, kills, cuts and restarts, and then the books; SECONDS=600 ARGS="postgres --seed 7"
	scripts/servers up
	cargo run --quiet -p cenote-tests --bin soak -- --seconds $(SECONDS) $(ARGS)

# Built apart from the rest, which it would have to be built anew for.
loom: ## model checks of what callers and drivers do at the same time
	RUSTFLAGS="$$RUSTFLAGS --cfg cenote_loom" cargo test --quiet --profile model -p cenote-pool --lib --target-dir target/loom -- model::

bench: ## the driver benchmark; ARGS="--mysql --seconds 3 --json"
	scripts/servers up postgres mysql
	@$(with_addresses) cargo run --release -p cenote-bench -- driver $(ARGS)

servers: ## start the servers and print their addresses
	@scripts/servers up
	@scripts/servers env

down: ## stop the servers
	@scripts/servers down
