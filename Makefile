# The front door. Every target first installs what this machine lacks (scripts/bootstrap).
#
#   make            build everything into build/
#   make demo       run a real job, checked, and show what a message costs here
#   make test       build, then run all tests
#   make bench      run the benchmarks and print each figure beside its limit
#   make compare    measure MPI on weft and on its rivals, which are installed below build/rivals
#   make startup    measure the start of jobs by weftrun and by its rivals, in the same way
#   make stress     all tests again, longer, also under ThreadSanitizer and AddressSanitizer; MPI's matching by random
#                   schedules for an hour (MATCHER_SECONDS); fuzzing for an hour
#   make asan       the tests under AddressSanitizer and UndefinedBehaviorSanitizer
#   make tsan       the tests under ThreadSanitizer
#   make fuzz       fuzz what takes bytes from outside, FUZZ_SECONDS each
#   make lint       formatting, naming and includes, as CI checks them;  make format  repairs formatting
#   make docs       docs/configuration.md and docs/mpi-coverage.md again, from their tables
#   make install    into PREFIX (default /usr/local)
#   make clean      remove what was built
#
# Variables: JOBS (parallel jobs), TEST_JOBS (tests at once), WEFT_STRESS_SECONDS (length of a stress test),
# CMAKE_FLAGS (more options for cmake), CTEST_FLAGS (more options for ctest), COMPARE_FLAGS (options of
# scripts/compare), STARTUP_FLAGS (of scripts/startup), PREFIX.

JOBS ?= $(shell nproc)
# Some tests wait most of their time.
TEST_JOBS ?= $(shell expr $(JOBS) + 2)
PREFIX ?= /usr/local
CTEST_FLAGS ?=
COMPARE_FLAGS ?=
STARTUP_FLAGS ?=
FUZZ_SECONDS ?= 20
MATCHER_SECONDS ?= 3600
CMAKE_FLAGS ?=

# Seconds after which one test is given up; a watchdog, not a limit to tune against.
TIMEOUT := 300

# In CI a warning is an error.
STRICT := -DCMAKE_COMPILE_WARNING_AS_ERROR=$(if $(CI),ON,OFF)

# What is built here is built from nothing, mostly: in large pieces, then. Those who work on weft build
# with `cmake --preset dev`, a source at a time, and so does `make stress`.
LARGE_PIECES := -DWEFT_LARGE_PIECES=ON

configure = cmake --preset $(1) -DWEFT_TEST_TIMEOUT_S=$(TIMEOUT) $(STRICT) $(CMAKE_FLAGS) $(2) >/dev/null
build = cmake --build --preset $(1) -j $(JOBS)
run_tests = ctest --preset $(1) -j $(TEST_JOBS) $(CTEST_FLAGS)

.PHONY: all bootstrap configure build programs demo test bench compare startup stress asan tsan fuzz \
        lint format docs install clean

all: build

bootstrap:
	@scripts/bootstrap build

configure: bootstrap
	@$(call configure,release,$(LARGE_PIECES))

build: configure
	@$(call build,release)

programs: configure
	@$(call build,release) --target programs

demo: programs
	@scripts/demo

bench: programs
	@scripts/bench

compare: programs
	@scripts/bootstrap compare
	@scripts/compare $(COMPARE_FLAGS)

startup: programs
	@scripts/startup $(STARTUP_FLAGS)

test: build
	@scripts/bootstrap test
	@$(call run_tests,release)

asan tsan: bootstrap
	@[ $@ = tsan ] || scripts/bootstrap test
	@$(call configure,$@,$(LARGE_PIECES) -DWEFT_LONG_TESTS=OFF)
	@$(call build,$@)
	@scripts/sanitized $(call run_tests,$@)

# A stress test may take many times its usual length: so may its watchdog.
stress: TIMEOUT := 7200
stress: export WEFT_STRESS_SECONDS ?= 30
stress: bootstrap
	@scripts/bootstrap test
	@for preset in release tsan asan; do \
	  echo "stress: $$preset, WEFT_STRESS_SECONDS=$$WEFT_STRESS_SECONDS"; \
	  $(call configure,$$preset,-DWEFT_LARGE_PIECES=OFF -DWEFT_LONG_TESTS=ON) && $(call build,$$preset) && \
	  tests=$$preset; [ $$preset = release ] || tests=$$preset-long; \
	  scripts/sanitized $(call run_tests,$$tests) || exit 1; \
	done
	WEFT_STRESS_SECONDS=$(MATCHER_SECONDS) build/bin/mpi_matching_test --gtest_filter='*Engines*'
	@$(MAKE) fuzz FUZZ_SECONDS=1200

fuzz:
	@scripts/bootstrap build fuzz
	@scripts/fuzz --seconds $(FUZZ_SECONDS)

lint: bootstrap
	@scripts/bootstrap lint
	@$(call configure,lint)
	@cmake --build build-lint --target weft_commit weft_mpi_generated
	@scripts/lint --build build-lint --jobs $(JOBS)

format:
	@scripts/bootstrap lint
	@scripts/lint --fix-format

docs: programs
	@python3 tests/house/check_configuration.py build/bin/weft-info --write
	@python3 tests/house/check_mpi_coverage.py --write

install: build
	@cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build build-dev build-asan build-tsan build-lint build-fuzz
