# The front door: `make demo`, `make test`, `make bench`, `make stress`, `make lint`.
BUILD ?= build
JOBS ?= $(shell nproc)

.PHONY: all bootstrap configure build clean
all: build

bootstrap:
	@scripts/bootstrap

configure: bootstrap
	@cmake -S . -B $(BUILD) -G Ninja -DCMAKE_BUILD_TYPE=Release

build: configure
	@cmake --build $(BUILD) -j $(JOBS)

clean:
	rm -rf $(BUILD) build-*
