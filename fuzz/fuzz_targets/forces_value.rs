//! Reads any bytes as values of every component of the standard classes: no panic, and a value that was read and that
//! its ranges permit is written and read again as the same value.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use weir_forces::schema::{Kind, Registry};
use weir_forces::value::{decode, encode};
use weir_forces::wire::Content;
use weir_forces::wire::tlv::Ilvs;

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let registry = Registry::standard();
    let whole = registry.all().map(|class| Kind::Struct(class.components.clone()));
    let parts = registry.all().flat_map(|class| class.components.iter().map(|c| c.kind.clone()));
    whole.chain(parts).collect()
});

fuzz_target!(|input: (u16, bool, &[u8])| {
    let (which, is_sparse, bytes) = input;
    let kind = &KINDS[usize::from(which) % KINDS.len()];
    let content = match is_sparse {
        false => Content::Full(bytes.to_vec()),
        true => match Ilvs::new("SPARSEDATA-TLV", bytes, 0).owned() {
            Ok(parts) => Content::Sparse(parts),
            Err(_) => return,
        },
    };
    let Ok(value) = decode(kind, &content) else {
        return;
    };
    if let Ok(written) = encode(kind, &value) {
        assert_eq!(decode(kind, &written), Ok(value));
    }
});
