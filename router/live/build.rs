//! Compiles the shim to nDPI if the feature `ndpi` is enabled.

fn main() {
    #[cfg(feature = "ndpi")]
    {
        println!("cargo:rerun-if-changed=src/ndpi/shim.c");
        println!("cargo:rerun-if-env-changed=WEIR_NDPI_INCLUDE");
        // Debian's libndpi-dev; the variable names the folder of another copy.
        let folder = std::env::var("WEIR_NDPI_INCLUDE");
        let folder = folder.unwrap_or_else(|_| "/usr/include/ndpi".to_owned());
        cc::Build::new()
            .file("src/ndpi/shim.c")
            .include(folder)
            .compile("weir_ndpi");
        println!("cargo:rustc-link-lib=ndpi");
    }
}
