//! Claims on interfaces: only one router may own an interface.
//!
//! Two routers on one interface would send every packet twice. To claim an interface, a router creates an nf_tables
//! table that is named after the interface's index and owned by the claim's socket:
//!
//! ```text
//! table netdev weir-claim-INDEX { flags owner; }        user data: who
//! ```
//!
//! The name of a table is unique, only a process with CAP_NET_ADMIN can create a table, a table belongs to one network
//! namespace as the interface does, and it vanishes with its owner, however the owner ends. The lock needs all these
//! properties, and neither a file nor a socket has them all.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::netlink::{NFGENMSG_BYTES, NetlinkSocket, Request, attribute, messages, text};
use super::nft::{self, CommitError, NFT_MSG_NEWTABLE, NFT_TABLE_F_OWNER, message};

/// Reason why an interface cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// Another process has claimed the interface.
    #[error(
        "another weir router uses this interface: {0}; stop that router first, or choose another interface for this one"
    )]
    Taken(String),
    /// The request to the kernel failed.
    #[error(
        "cannot claim the interface in the kernel's nf_tables: {source}{}",
        hint(source)
    )]
    Failed {
        /// The kernel's error.
        #[from]
        source: io::Error,
    },
}

/// The interfaces claimed by this process; dropping this value releases them.
#[derive(Debug)]
pub struct Claims {
    socket: NetlinkSocket, // the tables' owner
    owner: String,
    held: BTreeSet<u32>,
}

const NFT_MSG_GETTABLE: u8 = libc::NFT_MSG_GETTABLE as u8;
const NFT_MSG_DELTABLE: u8 = libc::NFT_MSG_DELTABLE as u8;
/// Name of a claim's table, without the index of the interface.
const TABLE: &str = "weir-claim-";
const TABLE_NAME: u16 = 1;
const TABLE_FLAGS: u16 = 2;
const TABLE_USER_DATA: u16 = 6;
/// Maximum user data that the kernel stores with a table, in bytes.
const USER_DATA_BYTES_MAX: usize = 256;

impl Claims {
    /// No claims yet, in the calling thread's network namespace. `owner` should name this process: another router that
    /// wants one of the interfaces shows it in its error.
    pub fn new(owner: &str) -> io::Result<Self> {
        let socket = nft::open()?;
        let cut = owner.char_indices().map(|(at, c)| at + c.len_utf8());
        let len = cut.take_while(|end| *end <= USER_DATA_BYTES_MAX).last();
        Ok(Self {
            socket,
            owner: owner[..len.unwrap_or(0)].to_owned(),
            held: BTreeSet::new(),
        })
    }

    /// Claims the interface with this index; does nothing if this process has already claimed it.
    pub fn claim(&mut self, interface: u32) -> Result<(), ClaimError> {
        if self.held.contains(&interface) {
            return Ok(());
        }
        let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let table = message(NFT_MSG_NEWTABLE, flags)
            .with_text(TABLE_NAME, &name(interface))
            .with_u32_be(TABLE_FLAGS, NFT_TABLE_F_OWNER)
            .with(TABLE_USER_DATA, self.owner.as_bytes());
        match self.transact("claim", table) {
            Ok(()) => {
                self.held.insert(interface);
                Ok(())
            }
            // The kernel does not compare a table of another owner: it answers "not permitted" to the name alone. A
            // process without the capability gets the same answer.
            Err(error) => match owner_of(&mut self.socket, interface) {
                Ok(owner) => Err(ClaimError::Taken(owner)),
                Err(_) => Err(error.into()),
            },
        }
    }

    /// Releases every claimed interface except these.
    pub fn keep_only(&mut self, interfaces: &BTreeSet<u32>) {
        let gone: Vec<u32> = self.held.difference(interfaces).copied().collect();
        for interface in gone {
            let table = message(NFT_MSG_DELTABLE, 0).with_text(TABLE_NAME, &name(interface));
            if let Err(error) = self.transact("release of a claim", table) {
                tracing::warn!(interface, %error, "cannot release the claim on an interface; it stays until the \
                                                   router stops");
            }
            self.held.remove(&interface);
        }
    }

    /// Sends one message as a transaction.
    fn transact(&mut self, what: &str, request: Request) -> io::Result<()> {
        nft::commit(&mut self.socket, &[(what.to_owned(), request)]).map_err(|error| match error {
            CommitError::Socket(source) | CommitError::Refused { source, .. } => source,
        })
    }
}

/// The claimed interfaces of the calling thread's network namespace, with the names that their owners have given.
pub fn owners() -> io::Result<BTreeMap<u32, String>> {
    let mut owners = BTreeMap::new();
    nft::open()?.dump(&message(NFT_MSG_GETTABLE, libc::NLM_F_DUMP), |table| {
        let attributes = table.payload.get(NFGENMSG_BYTES..).unwrap_or_default();
        let name = attribute(attributes, TABLE_NAME).map(text);
        let interface = name.and_then(|name| name.strip_prefix(TABLE)?.parse().ok());
        owners.extend(interface.map(|interface| (interface, who(attributes))));
    })?;
    Ok(owners)
}

fn owner_of(socket: &mut NetlinkSocket, interface: u32) -> io::Result<String> {
    let get = message(NFT_MSG_GETTABLE, 0).with_text(TABLE_NAME, &name(interface));
    socket.send_raw(&get.numbered(1))?;
    let mut buffer = vec![0; 8 * 1024];
    let answer = messages(socket.receive(&mut buffer)?).next();
    let answer = answer.ok_or(io::ErrorKind::InvalidData)?;
    if let Some(result) = answer.result() {
        result?; // there is no such table
    }
    let attributes = answer.payload.get(NFGENMSG_BYTES..).unwrap_or_default();
    Ok(who(attributes))
}

/// The owner in the attributes of a table.
fn who(attributes: &[u8]) -> String {
    attribute(attributes, TABLE_USER_DATA)
        .map(text)
        .unwrap_or_default()
}

fn name(interface: u32) -> String {
    format!("{TABLE}{interface}")
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => " (CAP_NET_ADMIN is needed)",
        _ => "",
    }
}
