//! The targets of the CE's rows in the kernel's form, each with the next-hop object to which its routes refer.
//!
//! ```text
//!  row: next hop or group, ports ----> target: gateways, interfaces ----> object in the kernel
//!                           \-- its interface is down: its routes wait
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;

use ipnet::IpNet;
use weir_fe::fib::{self, Family, TargetRow};
use weir_live::device::{carrier, interface};
use weir_live::kernel::install::{Installer, NextHop, objects};
use weir_live::kernel::message::Version;
use weir_model::Target;

/// The interface of each port, with its index.
pub(super) type Interfaces = BTreeMap<u32, (String, Result<u32, NoIndex>)>;

/// Why routes through an interface cannot be installed.
#[derive(Debug)]
pub(super) enum NoIndex {
    Away,
    /// A next-hop object cannot be made; an on-link route can be installed with this index.
    NoCarrier(u32),
    Failed(io::Error),
}

/// Why the kernel cannot have the routes of a row.
#[derive(Clone, Debug)]
pub(super) enum Unavailable {
    /// The routes wait for an interface.
    Away(String),
    /// The routes are wrong, or the kernel refuses them.
    Wrong(String),
}

/// The kernel's form of a row's target, and its object if it has one.
pub(super) type Via = (Target<NextHop>, Option<u32>);

/// The rows that have routes.
#[derive(Debug, Default)]
pub(super) struct Targets {
    rows: HashMap<TargetRow, Row>,
    /// Objects that have lost their routes, or will lose them with the changes that wait.
    unused: Vec<u32>,
}

#[derive(Debug)]
struct Row {
    target: Target<fib::NextHop>,
    routes: BTreeSet<IpNet>,
    object: Option<u32>,
}

impl Targets {
    /// Sets the target of a row. Its object stays until [`Self::make`].
    pub(super) fn set(&mut self, row: TargetRow, target: &Target<fib::NextHop>) {
        let known = self.rows.entry(row).or_insert_with(|| Row {
            target: target.clone(),
            routes: BTreeSet::new(),
            object: None,
        });
        if known.target != *target {
            known.target.clone_from(target);
        }
    }

    /// Moves a route to the row to which it refers now, from the row to which it referred before.
    pub(super) fn assign(
        &mut self,
        prefix: IpNet,
        now: Option<TargetRow>,
        before: Option<TargetRow>,
    ) {
        if let Some(row) = before.and_then(|row| self.rows.get_mut(&row)) {
            row.routes.remove(&prefix);
        }
        if let Some(row) = now.and_then(|row| self.rows.get_mut(&row)) {
            row.routes.insert(prefix);
        }
        if let Some(row) = before {
            self.forget_unused(row);
        }
    }

    /// The routes of a row.
    pub(super) fn routes(&self, row: TargetRow) -> Vec<IpNet> {
        let routes = self.rows.get(&row).map(|row| &row.routes);
        routes.into_iter().flatten().copied().collect()
    }

    /// Forgets a row without routes.
    pub(super) fn forget_unused(&mut self, row: TargetRow) {
        if self
            .rows
            .get(&row)
            .is_some_and(|kept| kept.routes.is_empty())
        {
            self.drop_object(row);
            self.rows.remove(&row);
        }
    }

    /// The object of a row.
    pub(super) fn object(&self, row: TargetRow) -> Option<u32> {
        self.rows.get(&row)?.object
    }

    /// The rows that have an object.
    pub(super) fn with_objects(&self) -> Vec<TargetRow> {
        let rows = self.rows.iter().filter(|(_, row)| row.object.is_some());
        rows.map(|(row, _)| *row).collect()
    }

    /// The rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = TargetRow> {
        self.rows.keys().copied()
    }

    /// The row's target in the kernel's form, without next hops whose interface is down or absent.
    pub(super) fn resolve(
        &self,
        row: TargetRow,
        interfaces: &Interfaces,
    ) -> Result<Target<NextHop>, Unavailable> {
        let kept = self.rows.get(&row);
        let kept = kept.ok_or_else(|| Unavailable::Wrong("it has no target".to_owned()))?;
        let target = kept.target.map(|hop| match interfaces.get(&hop.port) {
            Some((_, Ok(index))) => Ok(NextHop {
                gateway: hop.gateway,
                interface: *index,
            }),
            Some((_, Err(NoIndex::NoCarrier(index)))) if hop.gateway.is_none() => Ok(NextHop {
                gateway: None,
                interface: *index,
            }),
            Some((name, Err(NoIndex::Away))) => Err(Unavailable::Away(format!(
                "interface {name} is down or absent"
            ))),
            Some((name, Err(NoIndex::NoCarrier(_)))) => Err(Unavailable::Away(format!(
                "interface {name} has no carrier"
            ))),
            Some((name, Err(NoIndex::Failed(error)))) => {
                Err(Unavailable::Wrong(format!("interface {name}: {error}")))
            }
            None => Err(Unavailable::Wrong(format!(
                "port {} does not exist",
                hop.port
            ))),
        })?;
        match &target {
            // The kernel would make a route of each.
            Target::Hops(hops)
                if row.0 == Family::V6 && hops.iter().any(|(hop, _)| hop.gateway.is_none()) =>
            {
                let why = "each of several IPv6 next hops needs a gateway";
                Err(Unavailable::Wrong(why.to_owned()))
            }
            _ => Ok(target),
        }
    }

    /// Makes the object of a row, or gives it another target.
    pub(super) fn make(
        &mut self,
        row: TargetRow,
        target: &Target<NextHop>,
        installer: &mut Installer,
    ) -> io::Result<Option<u32>> {
        match self.try_make(row, target, installer) {
            Err(error) if is_stale(&error) => {
                self.reread(installer)?;
                self.try_make(row, target, installer)
            }
            made => made,
        }
    }

    fn try_make(
        &mut self,
        row: TargetRow,
        target: &Target<NextHop>,
        installer: &mut Installer,
    ) -> io::Result<Option<u32>> {
        let Some(kept) = self.rows.get_mut(&row) else {
            return Ok(None);
        };
        match kept.object {
            Some(id) => installer.change_object(id, target)?,
            None => kept.object = Some(installer.add_object(version(row.0), target)?),
        }
        Ok(kept.object)
    }

    /// Gives up the object of a row, whose routes no longer refer to it.
    pub(super) fn drop_object(&mut self, row: TargetRow) {
        let kept = self.rows.get_mut(&row);
        self.unused.extend(kept.and_then(|kept| kept.object.take()));
    }

    /// Removes the objects that no route uses from the kernel.
    pub(super) fn remove_unused(&mut self, installer: &mut Installer) {
        self.unused
            .drain(..)
            .for_each(|id| installer.remove_object(id));
    }

    /// Learns which objects the kernel still has, and their next hops.
    pub(super) fn reread(&mut self, installer: &mut Installer) -> io::Result<()> {
        installer.reread_objects()?;
        for row in self.rows.values_mut() {
            row.object.take_if(|id| installer.object(*id).is_none());
        }
        Ok(())
    }
}

/// Whether the kernel refused a request perhaps because it has deleted an object that the request names.
pub(super) fn is_stale(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT))
}

impl From<io::Error> for NoIndex {
    fn from(error: io::Error) -> Self {
        match interface::device_gone(&error) {
            true => Self::Away,
            false => Self::Failed(error),
        }
    }
}

/// The indices of interfaces through which routes can be installed. Next-hop objects need a carrier.
pub(super) fn find(interfaces: &BTreeMap<u32, String>, has_objects: bool) -> Interfaces {
    let index = |name: &str| {
        if !interface::is_up(name)? {
            return Err(NoIndex::Away);
        }
        let index = interface::index(name)?;
        match !has_objects || carrier::has_carrier(name)? {
            true => Ok(index),
            false => Err(NoIndex::NoCarrier(index)),
        }
    };
    let found = interfaces.iter();
    found
        .map(|(port, name)| (*port, (name.clone(), index(name))))
        .collect()
}

/// Whether routes of a target have an object.
pub(super) fn has_object(target: &Target<NextHop>, installer: &Installer) -> bool {
    installer.has_objects() && objects::is_possible(target)
}

const fn version(family: Family) -> Version {
    match family {
        Family::V4 => Version::V4,
        Family::V6 => Version::V6,
    }
}
