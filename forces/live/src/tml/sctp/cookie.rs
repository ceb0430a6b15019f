//! State cookies: an association that is being opened needs no memory on this side (RFC 9260, 5.1.3).
//!
//! ```text
//! peer                    we
//!   | -- INIT ------------> |  nothing is kept
//!   | <- INIT ACK, cookie - |  the cookie contains all that we need
//!   | -- COOKIE ECHO -----> |  seal and age are right, and the packet came from the same address and ports:
//!   | <- COOKIE ACK ------- |  now the association exists
//! ```
//!
//! A sender with a forged address never sees the cookie, so it cannot open an association, however many INITs it sends.
//! The seal is HMAC-SHA256 with a key that never leaves the process.

use std::net::{IpAddr, SocketAddr};

use ring::hmac;
use weir_base::{Instant, Span};

use super::init::Init;
use super::packet::{array, u32_at};

/// Lifetime of a cookie (RFC 9260, 16: Valid.Cookie.Life).
pub const LIFE: Span = Span::from_secs(60);

const BODY_LEN: usize = 8 + 2 * INIT_LEN + 4;
const INIT_LEN: usize = 13;
const SEAL_LEN: usize = 32;

/// The agreed parameters of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contract {
    /// Our INIT parameters.
    pub ours: Init,
    /// The peer's INIT parameters.
    pub theirs: Init,
    /// Our tag of the existing association between the same ports at the time of the INIT, or zero. If that association
    /// still exists at the COOKIE ECHO, the peer has restarted; any other association is newer than this cookie (RFC
    /// 9260, 5.2.4: tie-tags).
    pub replaces: u32,
}

/// Address and ports of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    /// The peer's address, and its UDP port; zero over raw IP.
    pub remote: SocketAddr,
    /// The peer's SCTP port.
    pub remote_port: u16,
    /// Our SCTP port.
    pub local_port: u16,
}

/// Why a cookie is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The cookie is not ours, or arrived from another address or port.
    Seal,
    /// The cookie is too old.
    Stale,
}

/// Creates and opens cookies.
#[derive(Debug)]
pub struct CookieSigner {
    key: hmac::Key,
}

impl CookieSigner {
    /// Creates a bakery with a secret of 32 octets.
    pub fn new(secret: &[u8; 32]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret),
        }
    }

    /// Creates the cookie of `contract`, for the peer at `path`.
    pub fn bake(&self, now: Instant, path: &Path, contract: &Contract) -> Vec<u8> {
        let mut cookie = Vec::with_capacity(BODY_LEN + SEAL_LEN);
        cookie.extend(now.as_nanos().to_be_bytes());
        for init in [&contract.ours, &contract.theirs] {
            cookie.extend(init.tag.to_be_bytes());
            cookie.extend(init.window.to_be_bytes());
            cookie.extend(init.first_tsn.to_be_bytes());
            cookie.push(init.forward_tsn.into());
        }
        cookie.extend(contract.replaces.to_be_bytes());
        let seal = hmac::sign(&self.key, &sealed(&cookie, path));
        cookie.extend(seal.as_ref());
        cookie
    }

    /// Opens a cookie that arrived from `path`, and returns its contract.
    pub fn open(&self, now: Instant, path: &Path, cookie: &[u8]) -> Result<Contract, Refused> {
        let (body, seal) = cookie.split_at_checked(BODY_LEN).ok_or(Refused::Seal)?;
        hmac::verify(&self.key, &sealed(body, path), seal).map_err(|_| Refused::Seal)?;
        let baked = u64::from_be_bytes(array(body, 0).ok_or(Refused::Seal)?);
        if now.since(Instant::from_nanos(baked)) > LIFE {
            return Err(Refused::Stale);
        }
        Ok(Contract {
            ours: read(body, 8).ok_or(Refused::Seal)?,
            theirs: read(body, 8 + INIT_LEN).ok_or(Refused::Seal)?,
            replaces: u32_at(body, 8 + 2 * INIT_LEN).ok_or(Refused::Seal)?,
        })
    }
}

fn read(body: &[u8], at: usize) -> Option<Init> {
    Some(Init {
        tag: u32_at(body, at)?,
        window: u32_at(body, at + 4)?,
        first_tsn: u32_at(body, at + 8)?,
        forward_tsn: *body.get(at + 12)? != 0,
    })
}

/// The bytes covered by the seal: the cookie, and the path on which it must arrive.
fn sealed(body: &[u8], path: &Path) -> Vec<u8> {
    let mut sealed = body.to_vec();
    match path.remote.ip() {
        IpAddr::V4(address) => sealed.extend(address.to_ipv6_mapped().octets()),
        IpAddr::V6(address) => sealed.extend(address.octets()),
    }
    for port in [path.remote.port(), path.remote_port, path.local_port] {
        sealed.extend(port.to_be_bytes());
    }
    sealed
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTRACT: Contract = Contract {
        ours: Init {
            tag: 1,
            window: 2,
            first_tsn: 3,
            forward_tsn: true,
        },
        theirs: Init {
            tag: 4,
            window: 5,
            first_tsn: 6,
            forward_tsn: false,
        },
        replaces: 7,
    };

    fn path() -> Path {
        Path {
            remote: "192.0.2.7:9899".parse().unwrap(),
            remote_port: 40_000,
            local_port: 6704,
        }
    }

    #[test]
    fn a_cookie_opens_for_the_one_who_got_it() {
        let bakery = CookieSigner::new(&[7; 32]);
        let cookie = bakery.bake(Instant::ZERO, &path(), &CONTRACT);
        let late = Instant::ZERO + LIFE;
        assert_eq!(bakery.open(late, &path(), &cookie), Ok(CONTRACT));
        let too_late = late + Span::from_nanos(1);
        assert_eq!(bakery.open(too_late, &path(), &cookie), Err(Refused::Stale));
    }

    #[test]
    fn another_path_another_key_and_every_changed_bit_are_refused() {
        let bakery = CookieSigner::new(&[7; 32]);
        let cookie = bakery.bake(Instant::ZERO, &path(), &CONTRACT);
        let elsewhere = [
            Path {
                remote: "192.0.2.8:9899".parse().unwrap(),
                ..path()
            },
            Path {
                remote: "192.0.2.7:9898".parse().unwrap(),
                ..path()
            },
            Path {
                remote_port: 40_001,
                ..path()
            },
            Path {
                local_port: 6705,
                ..path()
            },
        ];
        for path in elsewhere {
            assert_eq!(
                bakery.open(Instant::ZERO, &path, &cookie),
                Err(Refused::Seal)
            );
        }
        let other = CookieSigner::new(&[8; 32]);
        assert_eq!(
            other.open(Instant::ZERO, &path(), &cookie),
            Err(Refused::Seal)
        );
        for bit in 0..cookie.len() * 8 {
            let mut wrong = cookie.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                bakery.open(Instant::ZERO, &path(), &wrong),
                Err(Refused::Seal)
            );
        }
        for len in 0..cookie.len() {
            assert!(bakery.open(Instant::ZERO, &path(), &cookie[..len]).is_err());
        }
    }
}
