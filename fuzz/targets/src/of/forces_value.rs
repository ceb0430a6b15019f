//! Reads any bytes as values of every component of the standard classes: no panic, and a value that was read and that
//! its ranges permit is written and read again as the same value.

use std::sync::LazyLock;

use weir_protocol::schema::{Kind, Registry};
use weir_protocol::value::{decode, encode};
use weir_protocol::wire::Content;
use weir_protocol::wire::tlv::Ilvs;

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let registry = Registry::standard();
    let whole = registry
        .all()
        .map(|class| Kind::Struct(class.components.clone()));
    let parts = registry
        .all()
        .flat_map(|class| class.components.iter().map(|c| c.kind.clone()));
    whole.chain(parts).collect()
});

/// The target: the first two bytes choose the component, and the third byte the form.
pub(crate) fn target(bytes: &[u8]) {
    let [high, low, is_sparse, bytes @ ..] = bytes else {
        return;
    };
    let kind = &KINDS[usize::from(u16::from_be_bytes([*high, *low])) % KINDS.len()];
    let content = if is_sparse % 2 == 1 {
        match Ilvs::new("SPARSEDATA-TLV", bytes, 0).owned() {
            Ok(parts) => Content::Sparse(parts),
            Err(_) => return,
        }
    } else {
        Content::Full(bytes.to_vec())
    };
    let Ok(value) = decode(kind, &content) else {
        return;
    };
    if let Ok(written) = encode(kind, &value) {
        assert_eq!(decode(kind, &written), Ok(value));
    }
}

/// Zeros for every component: as many as most components need.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let of = |number: u16| {
        let head = number.to_be_bytes();
        let sparse = [0x01, 0x11, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0];
        let full = [&head[..], &[0], &[0; 24]].concat();
        [full, [&head[..], &[1], &sparse].concat()]
    };
    (0..KINDS.len() as u16).flat_map(of).collect()
}
