# What a developer types. Each target says what it does and installs what it needs.
.DEFAULT_GOAL := help
.PHONY: help demo test api-test soak sim check prepare openapi model mutants

INPUT ?=
KEEP ?=
# Through the environment, so that the shell sees a file's name as it is.
export INPUT

help:
	@echo 'make demo [INPUT=file] [KEEP=1]  A job from file to file, then one whose Mac is frozen in the'
	@echo '                                 middle. Takes about a minute; results in demo-output/.'
	@echo '                                 KEEP=1 leaves all of it running and says how to stop it.'
	@echo 'make test                        All tests, on real Postgres and real FFmpeg.'
	@echo 'make api-test [API_SECONDS=90]   Ask a real gateway whatever its description allows, and odd things.'
	@echo 'make soak [SOAK_SECONDS=600]     The long tests: mixed load with random kills, and more.'
	@echo 'make sim [SEED=1] [CASES=1000]   Generated lists of operations on Postgres, beside a plain'
	@echo '                                 reference of the rules (docs/evidence/simulation.md).'
	@echo 'make model                       Explore the whole execution model (docs/evidence/model.md).'
	@echo 'make mutants                     Break the rules one by one; each break must fail a test.'
	@echo 'make check                       Formatter, linter, documentation, committed query data.'
	@echo 'make prepare                     Rewrite .sqlx after a migration or a query has changed.'
	@echo 'make openapi                     Rewrite docs/openapi.json after the API has changed.'

# The product as it is installed: without the switches that tests have (see default-members).
demo:
	@echo '==> looking for what the demo needs'
	@.ci/install-deps
	@echo '==> building: cargo build (some minutes the first time)'
	@PATH="$$PATH:$$HOME/.cargo/bin" cargo build
	@target/debug/fencepost demo $${INPUT:+--input "$$INPUT"} $(if $(filter 1 yes true,$(KEEP)),--keep)

test:
	@.ci/test

api-test:
	@.ci/api-test

# SOAK_SECONDS, SOAK_JOBS and SOAK_SEED reach it through the environment.
soak:
	@SOAK_SECONDS="$(SOAK_SECONDS)" SOAK_JOBS="$(SOAK_JOBS)" SOAK_SEED="$(SOAK_SEED)" .ci/soak

sim:
	@SEED="$(SEED)" CASES="$(CASES)" .ci/sim

check:
	@.ci/check

prepare:
	@.ci/install-deps
	@PATH="$$PATH:$$HOME/.cargo/bin" .ci/prepare-sqlx

# Through a file of its own, so that a failed build leaves the old one.
openapi:
	@PATH="$$PATH:$$HOME/.cargo/bin" cargo run -q --bin fencepost -- openapi >target/openapi.json
	@mv target/openapi.json docs/openapi.json

# Minutes with optimisation on two cores; a bounded part of it runs in `make test`.
model:
	@PATH="$$PATH:$$HOME/.cargo/bin" cargo run --release -p fencepost-model $(if $(NAME),-- '$(NAME)')

# What is left out, and why, is in .cargo/mutants.toml.
mutants:
	@PATH="$$PATH:$$HOME/.cargo/bin"; cargo mutants --version >/dev/null 2>&1 || \
		{ echo 'missing: cargo-mutants; run: cargo install --locked cargo-mutants'; exit 1; }; \
		CARGO_PROFILE_DEV_DEBUG=none cargo mutants -p fencepost-domain --output target
