# Two commands do everything: `make demo` runs the main job, `make test` passes the tests.

.PHONY: demo test build packages clean

demo: packages
	cargo build --release --locked --package weir
	scripts/demo

test: packages
	cargo xtask ci

build:
	cargo build --release --locked

packages:
	scripts/install-packages

clean:
	cargo clean
	rm -rf out
