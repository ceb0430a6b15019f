# Two commands do everything: `make demo` runs the main job, `make test` passes the tests.

.PHONY: demo test test-lab build dist deb static packages clean

demo:
	scripts/install-packages demo
	cargo build --release --locked --package weir --package weir-lab
	scripts/demo

test:
	cargo xtask ci

# Before a release: the tests that need minutes of real time, on a machine that nobody else uses.
test-lab: packages
	cargo xtask test-lab

build:
	cargo build --release --locked

# A stripped binary with its debug information beside it: debuggers find `weir.debug` by the link in `weir`.
dist:
	cargo build --profile profiling --locked --package weir
	mkdir -p target/dist
	objcopy --only-keep-debug target/profiling/weir target/dist/weir.debug
	objcopy --strip-all --add-gnu-debuglink=target/dist/weir.debug target/profiling/weir target/dist/weir

# Debian packages of the release build: target/debian/weir_*.deb, weir-forces_*.deb, weir-lab_*.deb.
deb:
	cargo build --release --locked --bins
	scripts/deb target/release target/debian

# One file without libraries, below 15 MB: target/TARGET/static/weir. TARGET=aarch64-unknown-linux-musl is for 64-bit ARM.
TARGET ?= x86_64-unknown-linux-musl
static:
	scripts/static $(TARGET)

packages:
	scripts/install-packages

clean:
	cargo clean
	rm -rf out
