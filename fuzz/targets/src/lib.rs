//! Fuzz targets: one function for each parser, which takes any bytes and panics if something is wrong.
//!
//! ```text
//!   of::NAME::target(bytes) <--- TARGETS <--- runner: seeds, then mutations (stable compiler; `make test`)
//!                                   ^-------- fuzz/fuzz_targets: coverage-guided (cargo-fuzz, nightly compiler)
//! ```
//!
//! - `of`: the targets, a file each
//! - `seeds`: the first inputs of a target
//! - [`mutate`]: changes of inputs
//! - [`runner`]: runs a target on many inputs, within limits of time and memory

pub mod mutate;
pub mod runner;

mod of;
mod seeds;

pub use seeds::INPUT_BYTES_MAX;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// The format that the target reads.
    pub about: &'static str,
    /// Takes any bytes; panics if something is wrong.
    pub run: fn(&[u8]),
    /// The first inputs, in addition to inputs that once failed.
    begin: fn() -> Vec<Vec<u8>>,
    /// Words and numbers of its language, which mutations insert.
    pub tokens: &'static [&'static str],
    /// Maximum memory that the target may hold at once, in bytes.
    pub memory_max: u64,
}

impl Target {
    /// The target of this name.
    pub fn find(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// The first inputs: made from the repository's files, and inputs that once failed.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let mut seeds = (self.begin)();
        seeds.extend(seeds::failures(self.name));
        seeds
    }
}

/// Declares a target whose file has its name.
macro_rules! target {
    ($name:ident, $about:literal, $tokens:expr) => {
        target!($name, $about, $tokens, 64)
    };
    ($name:ident, $about:literal, $tokens:expr, $mebibytes:literal) => {
        Target {
            name: stringify!($name),
            about: $about,
            run: of::$name::target,
            begin: of::$name::seeds,
            tokens: $tokens,
            memory_max: $mebibytes << 20,
        }
    };
}

/// All targets, in the order of their names.
pub static TARGETS: &[Target] = &[
    target!(capture, "a capture: pcap, pcapng", &[]),
    target!(
        ce_configuration,
        "the configuration of a control element",
        TOML
    ),
    target!(classifier, "captures and payloads for the classifier", &[]),
    target!(
        configuration,
        "the configuration of a router or a forwarding element",
        TOML
    ),
    target!(
        encapsulation,
        "a frame whose packet is behind tags, PPPoE or MPLS",
        &[]
    ),
    target!(forces, "ForCES messages", &[]),
    target!(forces_value, "values of ForCES components", &[]),
    target!(forces_xml, "libraries of ForCES classes, as XML", XML),
    // Each input gets its own router, whose edge allocates its memory at the start.
    target!(fpf, "frames at a router with FPF rules", &[], 200),
    target!(
        frames,
        "a frame: routed, bridged, answered, fragmented",
        &[]
    ),
    target!(netlink, "netlink messages about the kernel's tables", &[]),
    target!(network, "the file of a network with FPF", TOML),
    target!(northbound, "HTTP requests to a router", HTTP),
    target!(offload, "superframes, and checksums to finish", &[]),
    target!(scenario, "scenarios", TOML),
    target!(sctp, "SCTP packets to a listener", &[]),
    target!(trace, "traces of a link's rate", TRACE),
    target!(wire, "every header by itself", &[]),
];

/// Pieces of configurations, networks and scenarios.
const TOML: &[&str] = &[
    "[",
    "]",
    "[[",
    "]]",
    " = ",
    "\"",
    "\n",
    ".",
    "{ ",
    " }",
    ", ",
    "true",
    "\"0 Mbit\"",
    "\"18446744073709551615 bit\"",
    "\"1e300 s\"",
    "\"-1 B\"",
    "\"0 s\"",
    "nan",
    "-1",
    "0",
    "9223372036854775807",
    "1e308",
    "port.x.interface = \"eth0\"\n",
    "kind = \"fifo\"\n",
    "limit = ",
    "rate = ",
    "[fpf.rule.a]\n",
    "lid = \"01\"\n",
    "vectors = ",
    "[port.wan.discipline]\n",
    "count = ",
    "extends = ",
    "[sweep]\n",
    "\"exponential 1 MB\"",
    "\"pareto 1.5 0.5 s\"",
    "ends = [\"a\", \"b\"]\n",
    "\u{fffd}",
];

const XML: &[&str] = &[
    "<",
    ">",
    "/>",
    "</",
    "\"",
    "&amp;",
    "&#0;",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<LFBLibrary ",
    "<dataTypeDefs>",
    "<dataTypeDef>",
    "<name>",
    "<struct>",
    "<array type=\"variable-size\">",
    "<component componentID=\"1\">",
    "<typeRef>",
    "<atomic>",
    "<baseType>",
    "<LFBClassDef LFBClassID=\"3\">",
    "<derivedFrom>",
    "<version>1.0</version>",
    "uint32",
];

const HTTP: &[&str] = &[
    "GET ",
    "PUT ",
    "PATCH ",
    "DELETE ",
    "POST ",
    " HTTP/1.1\r\n",
    "\r\n",
    "\r\n\r\n",
    "Host: a\r\n",
    "Content-Length: ",
    "Transfer-Encoding: chunked\r\n",
    "Expect: 100-continue\r\n",
    "Connection: close\r\n",
    "Content-Type: application/json\r\n",
    "/v1/",
    "%2e",
    "%00",
    "%ff",
    "?limit=",
    "&port=",
    "[",
    "]",
    "{",
    "}",
    "\"path\":",
    "\"value\":",
    "1e999",
    "\"port.wan.rate\"",
];

const TRACE: &[&str] = &[
    "\n", " ", "#", "outage", "0.001", "1e9", "86400", "-0", "nan", "inf", "0 bit", "9 Mbit",
    "1 Tbit",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_a_place_in_the_order() {
        let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        assert!(names.is_sorted());
        for target in TARGETS {
            assert!(!target.seeds().is_empty(), "{}", target.name);
        }
    }

    /// Cargo-fuzz runs the same targets.
    #[test]
    fn every_target_has_its_wrapper() {
        for target in TARGETS {
            let file = format!(
                "{}/../fuzz_targets/{}.rs",
                env!("CARGO_MANIFEST_DIR"),
                target.name
            );
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(text.contains(&format!("\"{}\"", target.name)), "{file}");
        }
    }
}
