//! Next-hop objects of installed routes (`ip nexthop`), so that one message moves all routes of a target.
//!
//! ```text
//!  route --RTA_NH_ID--> group ----> single: gateway, interface
//!  route --RTA_NH_ID----^     '---> single, or a single that drops packets
//! ```
//!
//! A target is a group, even with a single next hop: the kernel replaces groups by groups only. Groups share single
//! objects. All have our protocol and an identifier from [`IDS`]; others are never touched. A target with a next hop on
//! the link, or a target that answers "unreachable" or "prohibited", has no object: gateways are found only through
//! routes whose scope is the link, and the kernel has no objects that answer.
//!
//! The kernel deletes the objects of an interface that goes down or loses its carrier, and their routes, without a
//! message for either. A request that names a deleted object fails with `EINVAL`, or with `ENOENT` if it changes the
//! object; after [`Installer::reread_objects`], only objects that exist are known.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;
use std::ops::Range;

use weir_model::{Discard, Target};

use super::{Installer, NextHop, PROTOCOL, with_gateway};
use crate::kernel::message::{
    self, NHA_BLACKHOLE, NHA_GATEWAY, NHA_GROUP, NHA_ID, NHA_OIF, NHMSG_BYTES, NextHopKind,
    NextHopObject, RTM_DELNEXTHOP, RTM_GETNEXTHOP, RTM_NEWNEXTHOP, Version,
};
use crate::kernel::netlink::{NetlinkSocket, Request};

/// Identifiers of our objects.
const IDS: Range<u32> = 0x7700_0000..0x7800_0000;

/// A single object: its version, and its next hop; without a next hop, it drops packets.
type Single = (Version, Option<NextHop>);

/// The objects that an installer has made.
#[derive(Debug, Default)]
pub(super) struct Objects {
    groups: HashMap<u32, (Version, Target<NextHop>)>,
    singles: HashMap<Single, Shared>,
    next: u32,
    /// Objects of earlier processes, or of other routers in this namespace.
    found: BTreeSet<u32>,
}

#[derive(Debug)]
struct Shared {
    id: u32,
    groups: usize,
}

/// Whether routes of this target refer to an object.
pub fn is_possible(target: &Target<NextHop>) -> bool {
    match target {
        Target::Discard(discard) => *discard == Discard::Blackhole,
        _ => target.hops().all(|(hop, _)| hop.gateway.is_some()),
    }
}

impl Objects {
    /// `None` if the kernel has no next-hop objects (before 5.3).
    pub(super) fn open() -> io::Result<Option<Self>> {
        let kinds = match kinds() {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => {
                return Ok(None);
            }
            kinds => kinds?,
        };
        Ok(Some(Self {
            next: IDS.start,
            found: kinds.into_keys().collect(),
            ..Self::default()
        }))
    }
}

/// Next-hop objects.
impl Installer {
    /// Whether the kernel has next-hop objects.
    pub fn has_objects(&self) -> bool {
        self.objects.is_some()
    }

    /// The target of an object of this installer; `None` if the kernel had deleted it at the last rereading.
    pub fn object(&self, id: u32) -> Option<&Target<NextHop>> {
        let (_, target) = self.objects.as_ref()?.groups.get(&id)?;
        Some(target)
    }

    /// Makes an object for routes of this version.
    pub fn add_object(&mut self, version: Version, target: &Target<NextHop>) -> io::Result<u32> {
        let members = self.take(version, target)?;
        let made = self.create(|id, flags| group(id, flags, &members));
        match made {
            Ok(id) => drop(self.objects()?.groups.insert(id, (version, target.clone()))),
            Err(_) => self.give_back(version, target),
        }
        made
    }

    /// Changes the target of an object, and thereby all of its routes, by one message.
    pub fn change_object(&mut self, id: u32, after: &Target<NextHop>) -> io::Result<()> {
        let Some((version, before)) = self.objects()?.groups.get(&id).cloned() else {
            return Err(io::Error::from_raw_os_error(libc::ENOENT));
        };
        let members = self.take(version, after)?;
        let changed = self.ask(group(id, libc::NLM_F_REPLACE, &members));
        if changed.is_err() {
            self.give_back(version, after);
            return changed;
        }
        self.objects()?.groups.insert(id, (version, after.clone()));
        self.give_back(version, &before);
        Ok(())
    }

    /// Removes an object without routes.
    pub fn remove_object(&mut self, id: u32) {
        let objects = self.objects.as_mut();
        if let Some((version, target)) = objects.and_then(|objects| objects.groups.remove(&id)) {
            self.delete(id);
            self.give_back(version, &target);
        }
    }

    /// Learns which objects of this installer the kernel still has, and their targets.
    pub fn reread_objects(&mut self) -> io::Result<()> {
        let Some(objects) = &mut self.objects else {
            return Ok(());
        };
        let kinds = kinds()?;
        let mut groups: HashMap<u32, usize> = HashMap::new();
        objects.groups.retain(|id, (_, known)| {
            let Some(now) = target(&kinds, *id) else {
                return false;
            };
            *known = now;
            for member in kinds.get(id).into_iter().flat_map(NextHopKind::members) {
                *groups.entry(member).or_default() += 1;
            }
            true
        });
        objects.singles.retain(|_, shared| {
            shared.groups = groups.get(&shared.id).copied().unwrap_or(0);
            kinds.contains_key(&shared.id)
        });
        Ok(())
    }

    /// Removes objects that existed before this installer, and that no route uses.
    pub fn sweep_objects(&mut self, used: &BTreeSet<u32>) -> io::Result<()> {
        let Some(objects) = &mut self.objects else {
            return Ok(());
        };
        let found = std::mem::take(&mut objects.found);
        let mut kinds = kinds()?;
        let is_group = |kind: &NextHopKind| matches!(kind, NextHopKind::Group(_));
        for id in &found {
            if kinds.get(id).is_some_and(is_group) && !used.contains(id) {
                self.delete(*id);
                kinds.remove(id);
            }
        }
        let members: HashSet<u32> = kinds.values().flat_map(NextHopKind::members).collect();
        for id in &found {
            if kinds.get(id).is_some_and(|kind| !is_group(kind)) && !members.contains(id) {
                self.delete(*id);
            }
        }
        Ok(())
    }

    fn objects(&mut self) -> io::Result<&mut Objects> {
        let none = || io::Error::from(io::ErrorKind::Unsupported);
        self.objects.as_mut().ok_or_else(none)
    }

    /// Takes the single objects of a target, with their weights, and makes the missing objects.
    fn take(&mut self, version: Version, target: &Target<NextHop>) -> io::Result<Vec<(u32, u16)>> {
        let mut members: Vec<(u32, u16)> = Vec::new();
        for (single, weight) in singles(version, target) {
            if let Some(shared) = self.objects()?.singles.get_mut(&single) {
                shared.groups += 1;
                members.push((shared.id, weight));
                continue;
            }
            match self.create(|id, flags| request_of(id, flags, &single)) {
                Ok(id) => {
                    let shared = Shared { id, groups: 1 };
                    self.objects()?.singles.insert(single, shared);
                    members.push((id, weight));
                }
                Err(error) => {
                    let taken = singles(version, target).take(members.len());
                    taken.for_each(|(single, _)| self.give_back_one(&single));
                    return Err(error);
                }
            }
        }
        Ok(members)
    }

    /// Gives the single objects of a target back.
    fn give_back(&mut self, version: Version, target: &Target<NextHop>) {
        singles(version, target).for_each(|(single, _)| self.give_back_one(&single));
    }

    fn give_back_one(&mut self, single: &Single) {
        let Some(singles) = self.objects.as_mut().map(|objects| &mut objects.singles) else {
            return;
        };
        let Some(shared) = singles.get_mut(single) else {
            return; // the kernel has removed it
        };
        shared.groups -= 1;
        if shared.groups == 0 {
            let id = shared.id;
            singles.remove(single);
            self.delete(id);
        }
    }

    /// Makes an object with the next free identifier.
    fn create(&mut self, request: impl Fn(u32, libc::c_int) -> Request) -> io::Result<u32> {
        for _ in IDS {
            let objects = self.objects()?;
            let id = objects.next;
            objects.next = if id + 1 == IDS.end { IDS.start } else { id + 1 };
            match self.ask(request(id, libc::NLM_F_CREATE | libc::NLM_F_EXCL)) {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
                Err(error) => return Err(error),
                Ok(()) => {
                    self.objects()?.found.remove(&id); // an identifier that was free again
                    return Ok(id);
                }
            }
        }
        Err(io::Error::other(
            "no identifier of a next-hop object is free",
        ))
    }

    fn delete(&mut self, id: u32) {
        let request = Request::new(RTM_DELNEXTHOP, 0, &[0; NHMSG_BYTES]);
        let deleted = self.ask(request.with(NHA_ID, &id.to_ne_bytes()));
        if let Err(error) = deleted
            && error.raw_os_error() != Some(libc::ENOENT)
        {
            tracing::warn!(id, %error, "cannot remove a next-hop object");
        }
    }

    fn ask(&mut self, request: Request) -> io::Result<()> {
        self.socket.ask(&request.acknowledged())
    }
}

/// The single objects of a target, with their weights.
fn singles(version: Version, target: &Target<NextHop>) -> impl Iterator<Item = (Single, u16)> {
    let drops = matches!(target, Target::Discard(_)).then_some(((version, None), 1));
    let hops = target.hops();
    hops.map(move |(hop, weight)| ((version, Some(*hop)), weight))
        .chain(drops)
}

fn new(id: u32, flags: libc::c_int, family: libc::c_int) -> Request {
    let header = [family as u8, 0, PROTOCOL, 0, 0, 0, 0, 0];
    Request::new(RTM_NEWNEXTHOP, flags, &header).with(NHA_ID, &id.to_ne_bytes())
}

fn request_of(id: u32, flags: libc::c_int, (version, hop): &Single) -> Request {
    let family = match version {
        Version::V4 => libc::AF_INET,
        Version::V6 => libc::AF_INET6,
    };
    let request = new(id, flags, family);
    match hop {
        Some(hop) => {
            let request = request.with(NHA_OIF, &hop.interface.to_ne_bytes());
            with_gateway(request, NHA_GATEWAY, hop.gateway)
        }
        None => request.with(NHA_BLACKHOLE, &[]),
    }
}

/// A group: for each member `struct nexthop_grp` (identifier, weight - 1).
fn group(id: u32, flags: libc::c_int, members: &[(u32, u16)]) -> Request {
    let member = |(id, weight): &(u32, u16)| {
        let weight = weight.saturating_sub(1).min(255) as u8;
        [id.to_ne_bytes(), [weight, 0, 0, 0]].concat()
    };
    let members: Vec<u8> = members.iter().flat_map(member).collect();
    new(id, flags, libc::AF_UNSPEC).with(NHA_GROUP, &members)
}

/// The kernel's objects with our protocol and identifiers.
pub(super) fn kinds() -> io::Result<HashMap<u32, NextHopKind>> {
    let mut kinds = HashMap::new();
    let request = Request::new(RTM_GETNEXTHOP, libc::NLM_F_DUMP, &[0; NHMSG_BYTES]);
    NetlinkSocket::open(libc::NETLINK_ROUTE)?.dump(&request, |message| {
        kinds.extend(own(message.payload).map(|object| (object.id, object.kind)));
    })?;
    Ok(kinds)
}

/// The object that a message is about, if it has our protocol and identifiers.
pub(in crate::kernel) fn own(payload: &[u8]) -> Option<NextHopObject> {
    let object = message::parse_next_hop(payload)?;
    (payload.get(2) == Some(&PROTOCOL) && IDS.contains(&object.id)).then_some(object)
}

/// The target of a group.
pub(super) fn target(kinds: &HashMap<u32, NextHopKind>, id: u32) -> Option<Target<NextHop>> {
    let NextHopKind::Group(members) = kinds.get(&id)? else {
        return None;
    };
    let mut hops = Vec::with_capacity(members.len());
    for (member, weight) in members {
        match kinds.get(member)? {
            NextHopKind::Single {
                interface, gateway, ..
            } => {
                let (interface, gateway) = (*interface, *gateway);
                let weight = u16::try_from(*weight).ok()?;
                hops.push((NextHop { gateway, interface }, weight));
            }
            NextHopKind::Blackhole => return Some(Target::Discard(Discard::Blackhole)),
            _ => return None,
        }
    }
    Target::of_hops(hops)
}
