//! Takes any bytes as datagrams of the kernel about links, addresses, routes, next hops and neighbours.
//!
//! The kernel is trusted, but its messages have more forms than any test: routes into tunnels, objects of newer
//! versions.

use weir_live::kernel::tables::TableState;

/// Maximum length of a datagram in bytes: a short datagram leaves room for several in one input.
const DATAGRAM: usize = 512;

/// The target.
pub(crate) fn target(bytes: &[u8]) {
    let mut state = TableState::default();
    for datagram in bytes.chunks(DATAGRAM) {
        state.apply_datagram(datagram);
    }
    let tables = state.tables();
    for address in [[10, 0, 0, 1], [192, 0, 2, 1], [0; 4]] {
        tables.route(address.into());
    }
}

/// A message of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let message = |kind: u16, body: &[u8], attributes: &[(u16, &[u8])]| {
        let mut all = vec![0; 16];
        all[4..6].copy_from_slice(&kind.to_ne_bytes());
        all.extend(body);
        for (kind, value) in attributes {
            all.extend((4 + value.len() as u16).to_ne_bytes());
            all.extend(kind.to_ne_bytes());
            all.extend(*value);
            all.resize(all.len().next_multiple_of(4), 0);
        }
        let len = all.len() as u32;
        all[..4].copy_from_slice(&len.to_ne_bytes());
        all
    };
    let index = 2_u32.to_ne_bytes();
    let link = [&[0, 0, 1, 0][..], &index, &[0x43, 0x10, 1, 0], &[0; 4]].concat();
    let address = [&[2, 24, 0, 0][..], &index].concat();
    let neighbour = [&[2, 0, 0, 0][..], &index, &[2, 0, 0, 1]].concat();
    let route = |len: u8| [2, len, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    let hop = [&[16, 0, 0, 0][..], &index, &[8, 0, 5, 0, 10, 0, 0, 9]].concat();
    let hops = [hop.clone(), hop].concat();
    let group = [
        &7_u32.to_ne_bytes()[..],
        &[0; 4],
        &8_u32.to_ne_bytes(),
        &[2, 0, 0, 0],
    ]
    .concat();
    let objects = [7_u32, 8, 9].map(u32::to_ne_bytes);
    let new = [
        message(
            16,
            &link,
            &[
                (3, b"eth0\0"),
                (1, &[2, 0, 0, 0, 0, 1]),
                (4, &1500_u32.to_ne_bytes()),
            ],
        ),
        message(20, &address, &[(1, &[10, 0, 0, 1]), (2, &[10, 0, 0, 1])]),
        message(
            28,
            &neighbour,
            &[(1, &[10, 0, 0, 9]), (2, &[2, 0, 0, 0, 0, 9])],
        ),
        message(
            104,
            &[2, 0, 4, 0, 0, 0, 0, 0],
            &[(1, &objects[0]), (5, &index), (6, &[10, 0, 0, 9])],
        ),
        message(
            104,
            &[2, 0, 4, 0, 0, 0, 0, 0],
            &[(1, &objects[1]), (4, &[])],
        ),
        message(
            104,
            &[0, 0, 4, 0, 0, 0, 0, 0],
            &[(1, &objects[2]), (2, &group)],
        ),
        message(
            24,
            &route(24),
            &[
                (1, &[192, 0, 2, 0]),
                (5, &[10, 0, 0, 9]),
                (4, &index),
                (6, &[5, 0, 0, 0]),
            ],
        ),
        message(24, &route(16), &[(1, &[10, 1, 0, 0]), (9, &hops)]),
        message(24, &route(8), &[(1, &[10, 0, 0, 0]), (30, &objects[2])]),
        message(80, &[2, 0, 0, 0], &[(1, &index), (3, &[1, 0, 0, 0])]),
    ];
    let gone = [
        message(25, &route(24), &[(1, &[192, 0, 2, 0]), (4, &index)]),
        message(105, &[0; 8], &[(1, &objects[0])]),
        message(29, &neighbour, &[(1, &[10, 0, 0, 9])]),
        message(21, &address, &[(1, &[10, 0, 0, 1]), (2, &[10, 0, 0, 1])]),
        message(17, &link, &[]),
    ];
    let mut all: Vec<Vec<u8>> = new.iter().chain(&gone).cloned().collect();
    all.push([&new[..], &gone[..]].concat().concat());
    all
}
