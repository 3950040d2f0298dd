# Two commands are enough on a fresh machine: `make demo` and `make test`.
# Servers that are up already are used when their addresses are given: POSTGRES_URL=... MYSQL_URL=... make test

.DEFAULT_GOAL := help
.PHONY: help demo test loom soak bench servers down

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
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

demo: ## the demo server in the foreground, on port 8080 or $PORT
	@test -n "$$DATABASE_URL" || scripts/servers up postgres mysql
	cargo build --release -p cenote-demo
	@if test -z "$$DATABASE_URL"; then $(with_addresses) true; fi; $(plaintext_on_loopback) exec cargo run --quiet --release -p cenote-demo

test: ## every test, on real servers
	scripts/servers up
	@$(with_addresses) if cargo nextest --version >/dev/null 2>&1; then \
		cargo nextest run --workspace --no-fail-fast && cargo test --doc --workspace; \
	else \
		cargo test --workspace --no-fail-fast; \
	fi

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
