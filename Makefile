# Every step of the checks is a target here; .ci/run only calls them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CARGO ?= cargo
DENY_VERSION := 0.20.2
DEB_VERSION := 3.8.0
GENERATE_RPM_VERSION := 0.21.1
LLVM_COV_VERSION := 0.9.1
TYPOS_VERSION := 1.52.0
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Installs a tool of this version unless some version of it is there. Without
# optimization: it runs for a second and compiles for minutes.
tool = $(CARGO) $(1) --version >/dev/null 2>&1 || CARGO_PROFILE_DEV_DEBUG=0 $(CARGO) install cargo-$(1) --debug --locked --version $(2)

.PHONY: help
help: ## Show the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

.PHONY: demo
demo: ## Build it unoptimized, serve 1,000 hosts, fetch some of them with curl
	@tools/need build curl
	@[[ -e target/demo/sekisho ]] || echo 'Building an unoptimized sekisho for a first look. It takes about 3 minutes of' \
		'CPU time, half of that for the C libraries of TLS and SQLite. Later runs take seconds.'
	$(CARGO) build --profile demo --no-default-features --locked --bin sekisho
	tools/demo target/demo/sekisho

.PHONY: demo-acme
demo-acme: ## Visit ten hosts for the first time: two servers get certificates from a test CA
	@tools/need build curl openssl go patch
	@tools/pebble
	$(CARGO) build --profile demo --no-default-features --locked --bin sekisho
	tools/demo-acme target/demo/sekisho

.PHONY: verify
verify: ## Fetch 1,000 random hosts of 100,000 with curl and openssl s_client
	@tools/need build curl openssl
	$(CARGO) build --release --locked --bin sekisho
	tools/verify target/release/sekisho

.PHONY: deps
deps: ## Install what building and testing need, or name what is missing
	@tools/need build curl openssl nginx nginx-lua node redis valkey postgresql pgbouncer knot kdig unbound go patch php fcgiwrap strace
	@tools/pebble
	@tools/step-ca

.PHONY: test
test: deps ## Run all tests
	$(CARGO) test --workspace --locked
	@$(MAKE) --no-print-directory test-valkey

# Modules and files whose tests start Redis, PostgreSQL or PgBouncer.
WITH_SERVICES := contract:: postgres::tests redis::tests redis_cache::tests

.PHONY: test-fast
test-fast: ## Run the tests of the crates that start no service
	@tools/need build g++ openssl strace
	$(CARGO) test --locked -p sekisho-certs
	$(CARGO) test --locked -p sekisho-dns --lib
	$(CARGO) test --locked -p sekisho-gate
	$(CARGO) test --locked -p sekisho-hook
	$(CARGO) test --locked -p sekisho-https --lib --features client
	$(CARGO) test --locked -p sekisho-issuance --lib
	$(CARGO) test --locked -p sekisho-server --lib
	$(CARGO) test --locked -p sekisho-stores --lib -- $(addprefix --skip ,$(WITH_SERVICES))

.PHONY: coverage
coverage: deps ## Write the lines that the tests reach into target/llvm-cov/html
	@$(call tool,llvm-cov,$(LLVM_COV_VERSION))
	$(CARGO) llvm-cov --workspace --locked --html

SECONDS_EACH ?= 3

# Not a step of .ci/run: its optimized build takes more than four minutes on two
# cores.
.PHONY: fuzz
fuzz: ## Fuzz each target for SECONDS_EACH=3 seconds
	@tools/need build g++ openssl strace
	tools/fuzz $(SECONDS_EACH)

.PHONY: test-valkey
test-valkey: # The tests that need Redis, over Valkey, where there is one
	@if command -v valkey-server >/dev/null; then \
		echo 'over Valkey:'; \
		SEKISHO_TEST_REDIS=valkey $(CARGO) test --workspace --locked redis; \
	else \
		echo 'there is no valkey-server: these tests ran over Redis alone'; \
	fi

.PHONY: lint
lint: fmt clippy doc deny sizes ## Run all checks that need no running

.PHONY: fmt
fmt: ## Check the format
	$(CARGO) fmt --all --check

.PHONY: clippy
clippy: ## Check the code with clippy
	@tools/need build
	$(CARGO) clippy --workspace --all-targets --features man --locked -- -D warnings

.PHONY: doc
doc: ## Check that the documentation builds without warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked

.PHONY: deny
deny: ## Check bans, licences and sources of the dependencies
	@$(call tool,deny,$(DENY_VERSION))
	$(CARGO) deny --locked --log-level error check bans licenses sources

.PHONY: audit
audit: ## Check the dependencies for known vulnerabilities; fetches the advisories
	@$(call tool,deny,$(DENY_VERSION))
	@$(CARGO) deny --locked --log-level error check advisories || { \
		echo 'error: there are advisories, or their database could not be fetched from' >&2; \
		echo 'github.com/rustsec/advisory-db; this target needs the network, make lint does not' >&2; \
		exit 1; \
	}

.PHONY: msrv
msrv: ## Check that the oldest Rust that is promised compiles it
	@tools/need build
	@if rustc --version | grep -qF ' $(MSRV).'; then \
		echo 'this is Rust $(MSRV) itself'; \
		$(CARGO) check --workspace --all-targets --locked; \
	else \
		rustup run $(MSRV) $(CARGO) check --workspace --all-targets --locked; \
	fi

.PHONY: typos
typos: ## Check the spelling
	@typos --version >/dev/null 2>&1 || $(CARGO) install typos-cli --locked --version $(TYPOS_VERSION)
	typos

.PHONY: sizes
sizes: ## Check the sizes of files and functions
	$(CARGO) test --quiet --workspace --locked --test sizes

.PHONY: release
release: ## Build a trained release for each CPU=… into target/trained
	@tools/need build openssl profdata redis postgresql
	tools/release $(CPU)

# CPU of the trained build that `make bench` measures too; `TRAINED=` leaves it out.
TRAINED ?= $(if $(filter x86_64,$(shell uname -m)),x86-64,generic)
WITH_TRAINED = $(if $(TRAINED),--trained target/trained/$(TRAINED)/sekisho)

.PHONY: trained
trained:
	@[[ -z "$(TRAINED)" ]] || $(MAKE) --no-print-directory release CPU="$(TRAINED)"

.PHONY: bench
bench: trained ## Compare with nginx; writes a report into bench/results
	@tools/need build nginx openssl php apache
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench compare --sekisho target/release/sekisho $(WITH_TRAINED) --out bench/results

.PHONY: test-trained
test-trained: deps ## Run the tests of the binary and h2spec on the trained build
	@[[ -n "$(TRAINED)" ]] || { echo 'error: TRAINED= leaves out the build to test' >&2; exit 1; }
	@$(MAKE) --no-print-directory trained
	@tools/h2spec/build
	SEKISHO_TEST_BINARY=$(CURDIR)/target/trained/$(TRAINED)/sekisho \
		$(CARGO) test --workspace --locked --test binary
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests h2spec --sekisho target/trained/$(TRAINED)/sekisho

# Binary that chaos, floods and the other optimized system tests start: a trained one too.
SEKISHO ?= target/release/sekisho
MINUTES ?= 10
SEED ?=

.PHONY: chaos
chaos: ## Take stores and servers away under load for MINUTES=10 and judge it
	@tools/need build redis postgresql
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests chaos --sekisho $(SEKISHO) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

.PHONY: acme-faults
acme-faults: deps ## Kill servers, flood them and hang the CA while they order certificates; half an hour
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests acme-faults --sekisho $(SEKISHO)

# Built as for the tests: with the tests of one target, features are the same.
.PHONY: acme-faults-quick
acme-faults-quick: deps ## Do a little of that, unoptimized, in two minutes
	$(CARGO) build --workspace --locked --bins --test sizes
	target/debug/sekisho-system-tests acme-faults --quick --sekisho target/debug/sekisho

# WITHOUT=caddy builds no Caddy, whose cases are left out then.
.PHONY: first-access
first-access: WITHOUT ?=
first-access: ## Measure first visits of hosts without a certificate, beside Caddy; WITHOUT=caddy
	@tools/need build go patch
	@tools/pebble
	$(if $(findstring caddy,$(WITHOUT)),,@tools/caddy)
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests first-access --sekisho $(SEKISHO)

# Binaries for the system tests below, built as for the tests.
SYSTEM_TESTS := $(CARGO) build --workspace --locked --bins --test sizes

.PHONY: h2spec
h2spec: ## Run h2spec, all cases, on files and through the proxy
	@tools/need build nginx nginx-lua node go
	@tools/h2spec/build
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests h2spec --sekisho target/debug/sekisho

# WITHOUT=caddy builds no Caddy, whose layout this program fills then.
.PHONY: move-in
move-in: WITHOUT ?=
move-in: ## Import what certbot, lego, Caddy and others keep, and compare each name; WITHOUT=caddy
	@tools/need build curl openssl nginx redis go patch dehydrated lego haproxy certbot
	@tools/pebble
	@tools/certbot
	$(if $(findstring caddy,$(WITHOUT)),,@tools/caddy)
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests move-in --sekisho $(SEKISHO) $(if $(findstring caddy,$(WITHOUT)),--without-caddy)

.PHONY: move-in-quick
move-in-quick: # Unoptimized, and without Caddy
	@tools/need build curl openssl nginx redis go patch dehydrated lego haproxy certbot
	@tools/pebble
	@tools/certbot
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests move-in --without-caddy --sekisho target/debug/sekisho

KILLS ?= 100

.PHONY: bulk-faults
bulk-faults: ## Kill KILLS=100 imports, by themselves, pruning or watching; judge what is served
	@tools/need build postgresql
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests bulk-faults --kills $(KILLS) --sekisho $(SEKISHO)

.PHONY: bulk-faults-quick
bulk-faults-quick: # Eight kills, unoptimized
	@tools/need build postgresql
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests bulk-faults --kills 8 --hosts 100 --sekisho target/debug/sekisho

.PHONY: h2-patched
h2-patched: ## Build the server with tools/h2/h2.patch, as target/h2/release/sekisho
	@tools/need build patch
	tools/h2/build

.PHONY: smuggling
smuggling: ## Send requests that servers read differently, over HTTP/1.1 and HTTP/2
	@tools/need build nginx nginx-lua node
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests smuggling --sekisho target/debug/sekisho

.PHONY: smuggling-quick
smuggling-quick: # Each case once, not cut into single bytes too
	@tools/need build nginx nginx-lua node
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests smuggling --quick --sekisho target/debug/sekisho

# Chromium is not installed for this: without it, WebSocket is left out.
.PHONY: sites-quick
sites-quick: # 200 hosts, nginx beside, and WebSocket where there is Chromium
	@tools/need build nginx nginx-lua node
	$(SYSTEM_TESTS)
	parts=visits,tenants,beside; \
	if command -v chromium && command -v chromedriver && command -v certutil; then \
		parts+=,websocket; \
	fi >/dev/null; \
	target/debug/sekisho-system-tests sites --hosts 200 --parts "$$parts" --sekisho target/debug/sekisho

.PHONY: php-cgi
php-cgi: ## Run two tenants' scripts by php-fpm and fcgiwrap; as root, as two users
	@tools/need build php fcgiwrap
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests php-cgi --sekisho $(SEKISHO)

.PHONY: php-cgi-quick
php-cgi-quick: # Fewer requests, unoptimized
	@tools/need build php fcgiwrap
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests php-cgi --quick --sekisho target/debug/sekisho

# Not a step of .ci/run: what others notice is measured, on cores of their own.
.PHONY: floods
floods: ## Attack each limit and measure another tenant's clients beside it
	@tools/need build nginx nginx-lua
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests floods --sekisho $(SEKISHO)

.PHONY: hook-faults
hook-faults: ## Run scripts in handshakes that go wrong, and measure hosts beside them
	@tools/need build redis
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests hook-faults --sekisho $(SEKISHO)

.PHONY: hook-faults-quick
hook-faults-quick: # 2 s of each fault, unoptimized
	@tools/need build redis
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests hook-faults --quick --sekisho target/debug/sekisho

.PHONY: upgrade-under-load
upgrade-under-load: ## Reload ten times and upgrade three times under load; no client may fail
	@tools/need build
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests upgrade --sekisho $(SEKISHO)

.PHONY: upgrade-under-load-quick
upgrade-under-load-quick: # As many, unoptimized, at lower rates, in two minutes
	@tools/need build
	$(SYSTEM_TESTS)
	target/debug/sekisho-system-tests upgrade --quick --sekisho target/debug/sekisho

HOSTS ?= 10000

.PHONY: sites
sites: ## Visit HOSTS=10000 hosts, each with a site of its own; nginx beside; Chromium
	@tools/need build nginx nginx-lua node chromium
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-system-tests sites --hosts $(HOSTS) --sekisho $(SEKISHO)

.PHONY: renewal-year
renewal-year: ## Simulate a year of renewals, 2,000,000 hosts; draws docs/renewal-year.svg
	@tools/need build
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench renewal-year --picture docs/renewal-year.svg

LINEAGES ?= 2000000

.PHONY: bench-renewal
bench-renewal: ## Claim due lineages among LINEAGES=2000000 in SQLite and PostgreSQL
	@tools/need build postgresql
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench claims --lineages $(LINEAGES)

.PHONY: scale
scale: HOSTS = 10000000
scale: ## Look up HOSTS=10000000 in PostgreSQL under a snapshot open for MINUTES=10
	@tools/need build postgresql
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench scale --hosts $(HOSTS) --minutes $(MINUTES)

PAIRS ?= 100000
FILTERS ?= 0
REST ?= 0

# FILTERS=2000000 reads pages of lists among so many hosts, too; REST=2 watches a folder of the
# pairs for two minutes.
.PHONY: import-million
import-million: ## Import PAIRS=100000 into SQLite and PostgreSQL beside visits; FILTERS=2000000, REST=2
	@tools/need build postgresql
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench import-million --pairs $(PAIRS) --filters $(FILTERS) --rest $(REST) --sekisho $(SEKISHO)

.PHONY: import-million-quick
import-million-quick: # 10,000 pairs, unoptimized: judges memory, and that nothing is written twice
	@tools/need build postgresql
	$(SYSTEM_TESTS)
	target/debug/sekisho-bench import-million --pairs 10000 --no-rates --sekisho target/debug/sekisho

.PHONY: bench-stores
bench-stores: trained ## Measure Redis and PostgreSQL as stores; writes such a report too
	@tools/need build nginx nginx-lua openssl redis postgresql
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench compare --stores --sekisho target/release/sekisho $(WITH_TRAINED) --out bench/results

# Debian keeps servers where the PATH of a user does not lead.
paper paper-quick bench bench-stores: export PATH := $(PATH):/usr/sbin:/sbin

# The trained build is measured; TRAINED= and QUICK=1 measure the plain one. PART=… runs some
# parts alone, QUICK=1 a small evaluation; WITHOUT=… names peers that may be missing, and are
# not built; OUT=… is another folder for the results.
.PHONY: paper
paper: OUT ?= target/paper$(if $(QUICK),-quick)
paper: WITHOUT ?=
paper: $(if $(QUICK),,trained) ## Repeat the papers' evaluation; PART=…, QUICK=1, WITHOUT=caddy,nginx-1.28
	@tools/need build nginx nginx-lua openssl redis postgresql apache haproxy php siege wrk go patch
	$(if $(filter others,$(or $(PART),others)),@tools/pebble)
	$(if $(findstring caddy,$(WITHOUT)),,@tools/caddy)
	$(if $(findstring nginx-1.28,$(WITHOUT)),,@tools/nginx-1.28)
	$(CARGO) build --release --locked --workspace
	target/release/sekisho-bench paper $(PART) $(if $(QUICK),--quick) \
		--sekisho target/$(if $(or $(QUICK),$(if $(TRAINED),,none)),release,trained/$(TRAINED))/sekisho \
		$(if $(WITHOUT),--without $(WITHOUT)) --out $(OUT)

# Peers that would be built first may be missing, and the clients siege and wrk, whose
# namespaces a container may forbid.
.PHONY: paper-quick
paper-quick: # The small evaluation, unoptimized, in eight minutes
	@tools/need build nginx nginx-lua openssl redis postgresql apache haproxy php go patch
	@tools/pebble
	$(CARGO) build --locked --workspace
	target/debug/sekisho-bench paper --quick --sekisho target/debug/sekisho \
		--without caddy,nginx-1.28,siege,wrk --out target/paper-debug

# RESULTS=… takes another folder than the one that is committed.
.PHONY: evaluation
evaluation: RESULTS ?= bench/results/paper
# The page of other results than those of the project lies beside them.
evaluation: INTO = $(if $(filter bench/results/paper,$(RESULTS:/=)),docs,$(RESULTS))
evaluation: ## Write docs/evaluation.md and its pictures from RESULTS=bench/results/paper
	@tools/need build pictures
	$(CARGO) run --release --locked --package sekisho-bench -- \
		evaluation --results $(RESULTS) --out $(INTO)/evaluation.md
	tools/pictures $(RESULTS) $(INTO)/evaluation

# Least glibc that packages start on, and the CPU of the trained build to pack, if any.
PACKAGE_GLIBC ?= 2.28
PACKAGE_TRAINED ?=

.PHONY: package-tools
package-tools:
	@tools/need build packaging
	@$(call tool,deb,$(DEB_VERSION))
	@$(call tool,generate-rpm,$(GENERATE_RPM_VERSION))

.PHONY: package
package: package-tools ## Make a Debian package and an RPM for glibc PACKAGE_GLIBC=2.28
	tools/package $(if $(PACKAGE_TRAINED),--glibc 2.34 --trained $(PACKAGE_TRAINED) trained-$(PACKAGE_TRAINED),\
		--glibc $(PACKAGE_GLIBC) glibc-$(PACKAGE_GLIBC))

.PHONY: packages
packages: package-tools ## Make them for glibc 2.28 and 2.34, for arm64, and trained where that was built
	@tools/need arm64
	tools/packages

# The second build stands for the next version: it is unoptimized, and writes the pages too.
.PHONY: package-test
package-test: package-tools ## Install, upgrade and remove both packages on a clean Debian 12; as root
	@tools/need curl openssl roots
	tools/package --glibc $(PACKAGE_GLIBC) glibc-$(PACKAGE_GLIBC)
	tools/package --glibc $(PACKAGE_GLIBC) --profile demo --suffix +next next
	tools/package-test target/package/glibc-$(PACKAGE_GLIBC) target/package/next
