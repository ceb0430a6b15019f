//! One-time tokens.
//!
//! A token is 256 bits in hexadecimal: a random secret, and the first half of the SHA-256 fingerprint of the CE's
//! certificate. 128 bits cannot be guessed, so the limit of wrong attempts for each source only saves work: nobody can
//! use it to lock out other sources, or to end a token.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use weir_base::{Instant, Span};

use crate::tml::identity::{Fingerprint, hex, sha256, unhex};
use crate::tml::random;

/// First characters of a token.
const PREFIX: &str = "weir-";
/// Bytes of each half.
const HALF: usize = 16;
/// Wrong tokens that a source may present within [`BLOCKED`].
const ATTEMPTS_MAX: u32 = 5;
/// Time after its last wrong token for which a source is refused, once it has presented too many.
const BLOCKED: Span = Span::from_secs(60);
/// Maximum sources whose wrong tokens are counted.
const SOURCES_MAX: usize = 1024;

/// A token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    secret: [u8; HALF],
    ce: [u8; HALF],
}

impl Token {
    /// Creates a token of a CE with this certificate.
    pub fn new(ce: Fingerprint) -> Self {
        Self {
            secret: random(),
            ce: half(ce),
        }
    }

    /// Whether the token belongs to the CE with this certificate.
    pub fn is_of(&self, ce: Fingerprint) -> bool {
        self.ce == half(ce)
    }

    /// The part of the token that only the CE gets.
    pub(super) fn secret(&self) -> String {
        hex(&self.secret)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{}", hex(&self.secret), hex(&self.ce))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// A text is not a token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is not a whole token: `weir-` and 64 hexadecimal digits, as `weir invite` prints it")]
pub struct NoToken;

impl FromStr for Token {
    type Err = NoToken;

    fn from_str(text: &str) -> Result<Self, NoToken> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(NoToken)?;
        let (secret, ce) = digits.split_at_checked(2 * HALF).ok_or(NoToken)?;
        Ok(Self {
            secret: unhex(secret).ok_or(NoToken)?,
            ce: unhex(ce).ok_or(NoToken)?,
        })
    }
}

fn half(ce: Fingerprint) -> [u8; HALF] {
    let mut half = [0; HALF];
    half.copy_from_slice(&ce.as_bytes()[..HALF]);
    half
}

/// The open tokens of a CE: at most one for each FE.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// The FE and the end of each token, by the SHA-256 of its secret.
    open: BTreeMap<[u8; 32], (String, Instant)>,
    /// Number of wrong tokens of each source, and when the CE forgets them.
    wrong: HashMap<IpAddr, (u32, Instant)>,
}

impl Tokens {
    /// Opens a token for an FE. It replaces an earlier token of the FE.
    pub(super) fn open(&mut self, now: Instant, fe: &str, token: &Token, lifetime: Span) {
        self.close(fe);
        let entry = (fe.to_owned(), now + lifetime);
        self.open.insert(sha256(token.secret().as_bytes()), entry);
    }

    /// Ends the token of an FE. Returns whether there was one.
    pub(super) fn close(&mut self, fe: &str) -> bool {
        let before = self.open.len();
        self.open.retain(|_, (owner, _)| owner != fe);
        self.open.len() < before
    }

    /// Whether any token is open.
    pub(super) fn is_any_open(&mut self, now: Instant) -> bool {
        self.open.retain(|_, (_, ends)| *ends > now);
        !self.open.is_empty()
    }

    /// The FE for which this secret is open. Counts a wrong secret.
    pub(super) fn fe(&mut self, now: Instant, source: IpAddr, secret: &str) -> Option<String> {
        if self.is_blocked(now, source) {
            return None;
        }
        if self.is_any_open(now)
            && let Some((fe, _)) = self.open.get(&sha256(secret.as_bytes()))
        {
            return Some(fe.clone());
        }
        self.wrong.retain(|_, (_, ends)| *ends > now);
        if self.wrong.len() >= SOURCES_MAX
            && let Some(oldest) = self.wrong.iter().min_by_key(|(_, (_, ends))| *ends)
        {
            let oldest = *oldest.0;
            self.wrong.remove(&oldest);
        }
        let (count, ends) = self.wrong.entry(source).or_insert((0, now));
        *count += 1;
        *ends = now + BLOCKED;
        None
    }

    /// Whether a source has presented too many wrong tokens.
    pub(super) fn is_blocked(&self, now: Instant, source: IpAddr) -> bool {
        let wrong = self.wrong.get(&source);
        wrong.is_some_and(|(count, ends)| *count >= ATTEMPTS_MAX && *ends > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tml::identity::{Certificate, generate};

    fn token() -> Token {
        let made = generate("ce", 1).unwrap();
        let ce = Certificate::from_pem(&made.certificate).unwrap();
        Token::new(ce.fingerprint())
    }

    fn source(n: u32) -> IpAddr {
        IpAddr::from(n.to_be_bytes())
    }

    #[test]
    fn a_token_is_read_as_it_is_written() {
        let token = token();
        assert_eq!(format!("{token}\n").parse(), Ok(token.clone()));
        let text = token.to_string();
        for wrong in [
            "",
            "weir-",
            &text[5..],
            &text[..68],
            &format!("{text}0"),
            &text.replace("weir-", "weir-+"),
        ] {
            assert_eq!(wrong.parse::<Token>(), Err(NoToken), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(&text[5..10]));
    }

    #[test]
    fn a_token_ends_by_time_by_use_and_by_another() {
        let (mut tokens, now) = (Tokens::default(), Instant::ZERO);
        let (first, second) = (token(), token());
        let lifetime = Span::from_secs(60);
        tokens.open(now, "edge1", &first, lifetime);
        assert_eq!(
            tokens.fe(now, source(1), &first.secret()).as_deref(),
            Some("edge1")
        );
        tokens.open(now, "edge1", &second, lifetime);
        assert_eq!(tokens.fe(now, source(1), &first.secret()), None);
        let last = now + Span::from_millis(59_999);
        assert!(tokens.fe(last, source(1), &second.secret()).is_some());
        assert_eq!(tokens.fe(now + lifetime, source(1), &second.secret()), None);
        assert!(!tokens.is_any_open(now + lifetime));
        tokens.open(now, "edge1", &second, lifetime);
        assert!(tokens.close("edge1") && !tokens.close("edge1"));
        assert_eq!(tokens.fe(now, source(1), &second.secret()), None);
    }

    #[test]
    fn wrong_tokens_block_their_source_for_a_while_and_no_other() {
        let (mut tokens, now) = (Tokens::default(), Instant::ZERO);
        let (right, wrong) = (token(), token().secret());
        tokens.open(now, "edge1", &right, Span::from_secs(600));
        for _ in 0..ATTEMPTS_MAX {
            assert!(!tokens.is_blocked(now, source(1)));
            assert_eq!(tokens.fe(now, source(1), &wrong), None);
        }
        assert!(tokens.is_blocked(now, source(1)));
        assert_eq!(tokens.fe(now, source(1), &right.secret()), None);
        assert!(tokens.fe(now, source(2), &right.secret()).is_some());
        assert!(
            tokens
                .fe(now + BLOCKED, source(1), &right.secret())
                .is_some()
        );
    }

    #[test]
    fn a_million_sources_take_bounded_memory() {
        let (mut tokens, now) = (Tokens::default(), Instant::ZERO);
        let right = token();
        tokens.open(now, "edge1", &right, Span::from_secs(600));
        for n in 0..20 * SOURCES_MAX as u32 {
            let at = now + Span::from_nanos(n.into());
            assert_eq!(tokens.fe(at, source(n), "wrong"), None);
        }
        assert_eq!(tokens.wrong.len(), SOURCES_MAX);
        assert!(tokens.fe(now, source(u32::MAX), &right.secret()).is_some());
    }
}
