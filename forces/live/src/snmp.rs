//! Devices that are not weir, sampled by SNMP: a client that reads the queues of ports from IF-MIB (RFC 2863).
//!
//! ```text
//!   sample(ports) ──▶ index of each name (ifName, walked once) ──▶ one GET for each port ──▶ Sums ──▶ sample
//!                      '── again when a name has moved
//! ```
//!
//! | of a queue | from |
//! |---|---|
//! | sent | ifHCOutOctets; ifHCOutUcastPkts, ifHCOutMulticastPkts and ifHCOutBroadcastPkts together |
//! | held | ifOutQLen, in packets; many agents always report 0 |
//! | offered | the sum of sent, dropped (ifOutDiscards) and held |
//!
//! Source: RFC 2863 (IF-MIB), RFC 3416 (operations), RFC 3414 and 3826 (users, AES). SNMPv2c, or SNMPv3 with
//! authentication, and with privacy if the secrets have it.
//!
//! A client has one request in progress. An answer must arrive within the timeout, at the socket of its request: after
//! a failure the next request uses a new socket, so that a late answer reaches nobody. A walk ends after [`ROWS_MAX`]
//! rows, or when an agent's rows do not advance.
//!
//! Agents keep their own copies of the kernel's counters. Debian's agent updates its copy every three seconds: no
//! controller can follow a queue faster than its agent does.

mod if_mib;
mod secrets;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use snmp2::{AsyncSession, Error, Oid, Pdu, Value};

pub use self::if_mib::Sample;
use self::if_mib::{Reading, Sums};
pub use self::secrets::{Secrets, SecretsError};
use crate::tml::random;

/// Maximum number of interfaces searched for a name.
pub const ROWS_MAX: usize = 4096;
/// Rows per answer of a walk.
const ROWS_OF_ANSWER: u32 = 20;
/// Maximum requests that an agent may refuse because of its clock (SNMPv3) before it counts as failing.
const CLOCK_RETRIES: usize = 2;

/// A device.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address and UDP port of the agent.
    pub address: SocketAddr,
    /// Secrets for reading the device.
    pub secrets: Secrets,
    /// Timeout for an answer.
    pub timeout: Duration,
}

/// Why a device was not sampled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnmpError {
    /// No answer arrived in time. An agent that does not accept the secrets does not answer either.
    #[error("{0} did not answer within {1:?}; check the community or the user")]
    Silent(SocketAddr, Duration),
    /// The socket failed, or the answer is invalid.
    #[error("{0}: {1}")]
    Failed(SocketAddr, String),
}

/// A client of one device.
pub struct Client {
    target: Target,
    session: Option<AsyncSession>,
    ports: BTreeMap<Arc<str>, Port>,
}

/// A port of the device.
#[derive(Debug, Default)]
struct Port {
    /// ifIndex of the port, if known.
    index: Option<u32>,
    sums: Sums,
}

impl Client {
    /// Creates a client without a session.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            session: None,
            ports: BTreeMap::new(),
        }
    }

    /// Samples these ports, named by ifName. The result omits ports that the device does not have.
    pub async fn sample(
        &mut self,
        ports: &[Arc<str>],
    ) -> Result<Vec<(Arc<str>, Sample)>, SnmpError> {
        let result = self.sample_all(ports).await;
        if result.is_err() {
            self.session = None;
        }
        result
    }

    async fn sample_all(
        &mut self,
        ports: &[Arc<str>],
    ) -> Result<Vec<(Arc<str>, Sample)>, SnmpError> {
        let mut samples = Vec::new();
        let mut is_walked = false;
        for name in ports {
            let mut reading = self.read(name).await?;
            if reading.is_none() && !is_walked {
                self.walk(ports).await?;
                is_walked = true;
                reading = self.read(name).await?;
            }
            let port = self.ports.entry(Arc::clone(name)).or_default();
            match reading {
                Some(reading) => samples.push((Arc::clone(name), port.sums.add(reading))),
                None => *port = Port::default(),
            }
        }
        Ok(samples)
    }

    /// The counters of a port; `None` if its index is unknown, or now belongs to another port.
    async fn read(&mut self, name: &Arc<str>) -> Result<Option<Reading>, SnmpError> {
        let Some(index) = self.ports.get(name).and_then(|port| port.index) else {
            return Ok(None);
        };
        let wanted = if_mib::objects(index);
        let answer = self.ask(&Question::Get(&wanted)).await?;
        let address = self.target.address;
        let failed = |why| SnmpError::Failed(address, format!("{name}: {why}"));
        let row = if_mib::Row::parse(&wanted, &answer).map_err(failed)?;
        let row = row.filter(|row| row.name == name.as_bytes());
        Ok(row.map(|row| row.reading))
    }

    /// Finds the indices of these ports.
    async fn walk(&mut self, ports: &[Arc<str>]) -> Result<(), SnmpError> {
        for name in ports {
            self.ports.entry(Arc::clone(name)).or_default().index = None;
        }
        let (mut last, mut rows) = (0, 0);
        while rows < ROWS_MAX {
            let answer = self.ask(&Question::Walk(&if_mib::name_after(last))).await?;
            let before = rows;
            for (oid, datum) in answer {
                let index = if_mib::index_of_name(&oid).filter(|index| *index > last);
                let (Some(index), Datum::Octets(name)) = (index, datum) else {
                    return Ok(()); // the next column, or an agent that loops
                };
                (last, rows) = (index, rows + 1);
                let known = self.ports.iter_mut();
                for (_, port) in known.filter(|(port, _)| port.as_bytes() == name) {
                    port.index = Some(index);
                }
            }
            if rows == before {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends one request, and returns its answer.
    async fn ask(&mut self, question: &Question<'_>) -> Result<Vec<(Vec<u64>, Datum)>, SnmpError> {
        let Target {
            address, timeout, ..
        } = self.target;
        let answer =
            tokio::time::timeout(timeout, answer(&mut self.session, &self.target, question)).await;
        match answer {
            Ok(answer) => answer.map_err(|why| SnmpError::Failed(address, why)),
            Err(_) => Err(SnmpError::Silent(address, timeout)),
        }
    }
}

/// A request.
enum Question<'a> {
    /// Read these objects.
    Get(&'a [Vec<u64>]),
    /// Read the objects after this object.
    Walk(&'a [u64]),
}

/// A value of an object, limited to the types in IF-MIB.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Datum {
    Number(u64),
    Octets(Vec<u8>),
    /// The agent does not have the object, or its value is of another type.
    None,
}

impl From<Value<'_>> for Datum {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Counter64(number) => Self::Number(number),
            Value::Counter32(number) | Value::Unsigned32(number) | Value::Timeticks(number) => {
                Self::Number(number.into())
            }
            Value::OctetString(octets) => Self::Octets(octets.to_vec()),
            _ => Self::None,
        }
    }
}

/// Sends a request in the session, or in a new session. The error is a sentence.
async fn answer(
    session: &mut Option<AsyncSession>,
    target: &Target,
    question: &Question<'_>,
) -> Result<Vec<(Vec<u64>, Datum)>, String> {
    let session = match session {
        Some(session) => session,
        None => session.insert(open(target).await?),
    };
    for _ in 0..=CLOCK_RETRIES {
        match put(session, question).await {
            Ok(pdu) => return owned(&pdu, &target.secrets),
            Err(Error::AuthUpdated) => {} // the session has adopted the agent's clock
            Err(error) => return Err(words(&error)),
        }
    }
    Err("its SNMPv3 clock changes with every answer".to_owned())
}

async fn put<'s>(session: &'s mut AsyncSession, question: &Question<'_>) -> Result<Pdu<'s>, Error> {
    let oid = |ids: &[u64]| Oid::from(ids).map_err(|_| Error::AsnInvalidLen);
    match question {
        Question::Get(objects) => {
            let oids: Vec<_> = objects
                .iter()
                .map(|ids| oid(ids))
                .collect::<Result<_, _>>()?;
            session.get_many(&oids.iter().collect::<Vec<_>>()).await
        }
        Question::Walk(after) => session.getbulk(&[&oid(after)?], 0, ROWS_OF_ANSWER).await,
    }
}

/// The objects in an answer.
fn owned(pdu: &Pdu<'_>, secrets: &Secrets) -> Result<Vec<(Vec<u64>, Datum)>, String> {
    // The library parses answers of every version; an SNMPv2c answer does not authenticate a user.
    if pdu.v3_msg_id == 0 && matches!(secrets, Secrets::User(_)) {
        return Err("it answered without SNMPv3".to_owned());
    }
    if pdu.error_status != 0 {
        return Err(format!(
            "it answered with error status {}",
            pdu.error_status
        ));
    }
    let object = |(oid, value): (Oid<'_>, Value<'_>)| {
        let ids = oid.iter().map(Iterator::collect).unwrap_or_default();
        (ids, Datum::from(value))
    };
    Ok(pdu.varbinds.clone().map(object).collect())
}

/// Opens a session with its own socket and a random first request ID, so that no late answer matches, nor an answer
/// from a sender that has not seen the request.
async fn open(target: &Target) -> Result<AsyncSession, String> {
    let first = i32::from_be_bytes(random()) & 0x3fff_ffff;
    let session = match &target.secrets {
        Secrets::Community(community) => {
            AsyncSession::new_v2c(target.address, community.as_bytes(), first).await
        }
        Secrets::User(user) => AsyncSession::new_v3(target.address, first, user.security()).await,
    };
    let mut session = session.map_err(|error| format!("cannot open a socket: {error}"))?;
    session.init().await.map_err(|error| words(&error))?;
    Ok(session)
}

/// An error of the library as a sentence.
fn words(error: &Error) -> String {
    match error {
        Error::Send | Error::Receive => "no SNMP agent is listening there".to_owned(),
        Error::AuthFailure(why) => {
            format!("it does not accept the user or the passwords ({why:?})")
        }
        error => format!("its answer does not match the request ({error:?})"),
    }
}
