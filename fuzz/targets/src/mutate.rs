//! Changes of an input: bits, bytes, lengths, numbers at the edges of their range, words of a language, and parts of
//! other inputs.
//!
//! This is our own code, because the libraries for this work on structures (`mutatis`) or need a nightly compiler
//! (`fuzzcheck`), and a few changes of bytes are short.

use rand::RngExt;
use weir_base::Stream;

use crate::INPUT_BYTES_MAX;

/// Maximum number of changes of one input.
const CHANGES_MAX: u32 = 6;
/// Maximum length of a run of bytes that one change inserts, repeats or removes.
const RUN_MAX: usize = 64;
/// Numbers at which arithmetic goes wrong.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// A slightly changed copy of an input of the corpus.
pub fn mutate(random: &mut Stream, corpus: &[Vec<u8>], tokens: &[&str]) -> Vec<u8> {
    let any = |random: &mut Stream| match corpus {
        [] => &[][..],
        _ => &corpus[random.random_range(0..corpus.len())][..],
    };
    let mut bytes = any(random).to_vec();
    for _ in 0..random.random_range(1..=CHANGES_MAX) {
        let other = any(random);
        change(random, &mut bytes, other, tokens);
        bytes.truncate(INPUT_BYTES_MAX);
    }
    bytes
}

fn change(random: &mut Stream, bytes: &mut Vec<u8>, other: &[u8], tokens: &[&str]) {
    let at = random.random_range(0..=bytes.len());
    let end = (at + random.random_range(1..=RUN_MAX)).min(bytes.len());
    match random.random_range(0..12) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.random_range(0..8),
        1 if at < bytes.len() => bytes[at] = random.random(),
        2 if at < bytes.len() => {
            bytes[at] = bytes[at].wrapping_add_signed(random.random_range(-8..=8))
        }
        3 => bytes.truncate(at),
        4 => drop(bytes.drain(at..end)),
        5 => {
            let run = bytes[at..end].to_vec();
            insert(bytes, random.random_range(0..=at), &run);
        }
        6 => {
            let run = vec![random.random(); random.random_range(1..=RUN_MAX)];
            insert(bytes, at, &run);
        }
        7 => {
            let from = random.random_range(0..=other.len());
            let to = (from + random.random_range(1..=4 * RUN_MAX)).min(other.len());
            insert(bytes, at, &other[from..to]);
        }
        8 => {
            // The end of another input, as if both had been cut here.
            bytes.truncate(at);
            bytes.extend(&other[at.min(other.len())..]);
        }
        9 if !tokens.is_empty() => {
            let token = tokens[random.random_range(0..tokens.len())];
            insert(bytes, at, token.as_bytes());
        }
        10 => digits(random, bytes, at),
        _ => number(random, bytes, at),
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, run: &[u8]) {
    drop(bytes.splice(at..at, run.iter().copied()));
}

/// Writes a number over one, two, four or eight bytes: an edge, or the length of the rest.
fn number(random: &mut Stream, bytes: &mut [u8], at: usize) {
    let width = 1 << random.random_range(0..4);
    let rest = (bytes.len() - at) as u64;
    let value = match random.random_range(0..3) {
        0 => rest.wrapping_add_signed(random.random_range(-4..=4)),
        _ => EDGES[random.random_range(0..EDGES.len())],
    };
    let Some(field) = bytes.get_mut(at..at + width) else {
        return;
    };
    if random.random() {
        field.copy_from_slice(&value.to_be_bytes()[8 - width..])
    } else {
        field.copy_from_slice(&value.to_le_bytes()[..width])
    }
}

/// Writes another number in place of the first digits after a place.
fn digits(random: &mut Stream, bytes: &mut Vec<u8>, at: usize) {
    let Some(first) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let first = at + first;
    let len = bytes[first..]
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let value = if random.random() {
        EDGES[random.random_range(0..EDGES.len())]
    } else {
        random.random_range(0..1000)
    };
    drop(bytes.splice(first..first + len, value.to_string().into_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::Streams;

    #[test]
    fn the_same_seed_gives_the_same_inputs_which_are_short_and_differ() {
        let corpus = [b"[port.wan]\nrate = 9\n".to_vec(), vec![7; INPUT_BYTES_MAX]];
        let all = |seed| {
            let mut random = Streams::new(seed).stream("x");
            let inputs = (0..1000).map(|_| mutate(&mut random, &corpus, &["true"]));
            inputs.collect::<Vec<_>>()
        };
        let inputs = all(1);
        assert_eq!(inputs, all(1));
        assert_ne!(inputs, all(2));
        assert!(inputs.iter().all(|input| input.len() <= INPUT_BYTES_MAX));
        let changed = inputs.iter().filter(|input| !corpus.contains(input));
        assert!(changed.count() > 900);
    }

    #[test]
    fn an_empty_corpus_is_no_failure() {
        let mut random = Streams::new(1).stream("x");
        for _ in 0..1000 {
            mutate(&mut random, &[], &[]);
        }
    }
}
