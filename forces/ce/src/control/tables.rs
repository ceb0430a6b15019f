//! Rows of the CE's own tables.

use weir_base::Instant;
use weir_lfb::named::Named;
use weir_model::{Class, Component, Value};
use weir_protocol::session::ce::LinkId;
use weir_protocol::wire::header::VERSION;

use super::Control;
use super::member::{Fe, State};
use crate::tables::{ASSOCIATIONS, FES, LFBS};

impl Control {
    /// The rows of a table of the CE ([`TABLES`](crate::tables::TABLES)). Returns no rows for other classes, nor for
    /// tables whose rows exist outside `Control`: channels, controllers, exceptions and faults.
    pub fn table(&self, now: Instant, class: &Class) -> Value {
        Value::List(match class.name {
            "fes" => self.fes.values().map(fe).collect(),
            "associations" => self.associations(now),
            "lfbs" => self.fes.values().flat_map(|fe| self.blocks(fe)).collect(),
            _ => Vec::new(),
        })
    }

    /// The link of each associated FE, with the FE's name.
    pub fn links(&self) -> impl Iterator<Item = (&str, LinkId)> {
        let name = |(id, link)| Some((&*self.fes.get(&id)?.name, link));
        self.ce.fes().filter_map(name)
    }

    fn associations(&self, now: Instant) -> Vec<Value> {
        let row = |(id, link)| {
            let fe = self.fes.get(&id)?;
            let statistics = self.ce.statistics(id)?;
            let peer = self.peers.get(&link).map_or("", |peer| &peer.address);
            Some(values(&ASSOCIATIONS, |name| match name {
                "fe" => fe.name.as_str().into(),
                "ce_id" => Value::Whole(self.params.session.id.0.into()),
                "fe_id" => Value::Whole(id.0.into()),
                "version" => Value::Whole(VERSION.into()),
                "up_s" => now.since(statistics.since).into(),
                "heartbeats_sent" => statistics.heartbeats_sent.into(),
                "heartbeats_received" => statistics.heartbeats_received.into(),
                "messages_sent" => statistics.operations_sent.into(),
                "messages_received" => statistics.operations_received.into(),
                "requests" => (self.ce.requests(id) as u64).into(),
                _ => peer.into(),
            }))
        };
        self.ce.fes().filter_map(row).collect()
    }

    fn blocks(&self, fe: &Fe) -> Vec<Value> {
        let present = fe.directory.blocks.values().filter(|_| fe.is_associated());
        let row = |(class, instance): &(u32, u32)| {
            let known = self.codec.class(*class);
            let section = fe.directory.name_of((*class, *instance));
            values(&LFBS, |name| match name {
                "fe" => fe.name.as_str().into(),
                "class" => self.codec.name(*class).into(),
                "class_id" => Value::Whole((*class).into()),
                "instance" => instance.to_string().into(),
                "port" => section.cloned().into(),
                "path" => self
                    .path_of(fe.id, (*class, *instance), &[])
                    .to_string()
                    .into(),
                _ => known.map(|class| class.about.clone()).into(),
            })
        };
        present.map(row).collect()
    }
}

fn fe(fe: &Fe) -> Value {
    let (state, why) = match &fe.state {
        State::Away(why) => ("away", Some(why.clone())),
        State::Restoring => ("restoring", None),
        State::InSync => match &fe.lacks {
            None => ("in sync", None),
            Some(why) => ("degraded", Some(why.clone())),
        },
        State::Refused(why) => ("refused", Some(why.clone())),
    };
    let desired = fe.desired.iter().count() + fe.components.len() + fe.routes.len();
    values(&FES, |name| match name {
        "fe" => fe.name.as_str().into(),
        "id" => Value::Whole(fe.id.0.into()),
        "state" => state.into(),
        "ports" => (fe.directory.of_kind(Named::Port).count() as u64).into(),
        "blocks" => (fe.directory.blocks.len() as u64).into(),
        "desired" => (desired as u64).into(),
        _ => why.clone().into(),
    })
}

/// A row of a table of the CE.
fn values(class: &'static Class, value: impl Fn(&str) -> Value) -> Value {
    Component::values(class.components, |component| {
        let value = value(component.name);
        debug_assert!(component.admits(&value), "{} is {value:?}", component.name);
        value
    })
}
