//! Updates of FPM, applied to the tables of the kernel.

use netlink_packet_route::link::LinkFlags;

use super::{Effect, TableState};
use crate::kernel::fpm_message::Update;
use crate::kernel::message::LinkState;
use crate::kernel::routes::fpm::{Detached, FpmCounts, Full};

impl TableState {
    /// How much has come by FPM.
    pub fn fpm_counts(&self) -> FpmCounts {
        self.routes.fpm_counts()
    }

    /// Whether a next-hop object has come by FPM.
    pub(in crate::kernel) fn knows_fpm_object(&self, id: u32) -> bool {
        self.routes.knows_fpm_object(id)
    }

    /// Applies an update of FPM, unless there are too many routes.
    pub(in crate::kernel) fn apply_fpm(&mut self, update: Update) -> Result<Effect, Full> {
        let changed = match update {
            Update::Route(prefix, mut route) => {
                route.set_link(|index| self.link_state(index));
                self.routes.set_fpm(prefix, route)?;
                self.routes.affected(&prefix)
            }
            Update::NoRoute(prefix, route) => {
                self.routes.remove_fpm(&prefix, &route);
                self.routes.affected(&prefix)
            }
            Update::Object(mut object) => {
                object.kind.set_link(|index| self.link_state(index));
                let moved = self.routes.set_fpm_object(object)?;
                return Ok(self.follow_objects(&moved));
            }
            Update::NoObject(id) => {
                let moved = self.routes.remove_fpm_object(id);
                return Ok(self.follow_objects(&moved));
            }
        };
        Ok(self.refresh_all(&changed))
    }

    /// Begins a replay: a peer sends all that it has.
    pub(in crate::kernel) fn begin_fpm_replay(&mut self) {
        self.routes.begin_fpm_replay();
    }

    /// Ends a replay: removes all other routes of FPM.
    pub(in crate::kernel) fn end_fpm_replay(&mut self) -> Effect {
        let changed = self.routes.end_fpm_replay();
        self.refresh_all(&changed)
    }

    /// Takes out the routes of FPM.
    pub(in crate::kernel) fn into_fpm(self) -> Detached {
        self.routes.into_fpm()
    }

    /// Adds the routes of FPM to newly read tables.
    pub(in crate::kernel) fn join_fpm(&mut self, detached: Detached) {
        let working = &self.working;
        let joined = self
            .routes
            .join_fpm(detached, |index| link_state(working.get(&index)));
        self.refresh_all(&joined);
    }

    fn link_state(&self, index: u32) -> LinkState {
        link_state(self.working.get(&index))
    }
}

/// An unknown interface is down: FPM's message about a route may come before the kernel's about the interface, which
/// causes a new reading.
fn link_state(flags: Option<&LinkFlags>) -> LinkState {
    let has = |flag| flags.is_some_and(|flags| flags.contains(flag));
    LinkState {
        dead: !has(LinkFlags::Up),
        no_carrier: !has(LinkFlags::Running),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ip, route, via};
    use super::*;
    use crate::kernel::message::{NextHopKind, NextHopObject};
    use crate::kernel::route_message::{self, Read};
    use netlink_packet_route::RouteNetlinkMessage;
    use netlink_packet_route::link::{LinkAttribute, LinkMessage};
    use netlink_packet_route::route::RouteAttribute;
    use weir_path::ip::tables::NextHop;

    fn update(prefix: &str, attributes: Vec<RouteAttribute>) -> Update {
        let Some(Read::Candidate(prefix, route)) =
            route_message::read(&route(prefix, 20, attributes))
        else {
            panic!("a route")
        };
        Update::Route(prefix, route)
    }

    fn single(id: u32, interface: u32) -> Update {
        let kind = NextHopKind::Single {
            interface,
            gateway: Some(ip("10.0.0.2")),
            dead: false,
            no_carrier: false,
        };
        Update::Object(NextHopObject { id, kind })
    }

    fn group(id: u32, members: &[u32]) -> Update {
        let members = members.iter().map(|id| (*id, 1)).collect();
        let kind = NextHopKind::Group(members);
        Update::Object(NextHopObject { id, kind })
    }

    fn by_object(prefix: &str, id: u32) -> Update {
        update(prefix, vec![RouteAttribute::NhId(id)])
    }

    fn set_link(state: &mut TableState, index: u32, flags: LinkFlags) -> Effect {
        let mut link = LinkMessage::default();
        (link.header.index, link.header.flags) = (index, flags);
        link.attributes = vec![LinkAttribute::IfName(format!("eth{index}"))];
        state.hear(RouteNetlinkMessage::NewLink(link))
    }

    /// A state with the interfaces 1 and 2, as a reading finds them.
    fn state() -> TableState {
        let mut state = TableState::default();
        for index in [1, 2] {
            set_link(&mut state, index, LinkFlags::Up | LinkFlags::Running);
        }
        state
    }

    fn interfaces(state: &TableState, to: &str) -> Vec<u32> {
        let hops = state.hops(to);
        hops.iter().map(|hop: &NextHop| hop.interface).collect()
    }

    #[test]
    fn a_route_works_as_soon_as_its_objects_have_come() {
        let mut state = state();
        let apply = |state: &mut TableState, update| state.apply_fpm(update).unwrap();
        assert_eq!(
            apply(&mut state, by_object("10.9.0.0/16", 7)),
            Effect::Nothing
        );
        assert_eq!(state.fpm_counts().unresolved, 1);
        assert_eq!(apply(&mut state, group(7, &[1, 2])), Effect::Nothing);
        assert_eq!(state.fpm_counts().unresolved, 0);
        assert_eq!(apply(&mut state, single(1, 1)), Effect::Changed);
        assert_eq!(apply(&mut state, single(2, 2)), Effect::Changed);
        assert_eq!(interfaces(&state, "10.9.0.1"), [1, 2]);
        assert_eq!(apply(&mut state, single(2, 2)), Effect::Nothing);
        assert_eq!(apply(&mut state, group(7, &[2])), Effect::Changed);
        assert_eq!(interfaces(&state, "10.9.0.1"), [2]);
        assert_eq!(apply(&mut state, Update::NoObject(7)), Effect::Changed);
        assert_eq!(state.action("10.9.0.1"), None);
        assert_eq!(apply(&mut state, group(7, &[1])), Effect::Changed);
        assert_eq!(interfaces(&state, "10.9.0.1"), [1]);
    }

    #[test]
    fn a_new_route_replaces_the_old_one_and_the_kernels_stay() {
        let mut state = state();
        for interface in [1, 2] {
            let update = update("10.9.0.0/16", via("10.0.0.2", interface));
            assert_eq!(state.apply_fpm(update), Ok(Effect::Changed));
        }
        assert_eq!(interfaces(&state, "10.9.0.1"), [2]);
        assert_eq!(state.fpm_counts().routes, 1);
        // Of the same metric, the kernel's counts first.
        assert_eq!(
            state.add(route("10.9.0.0/16", 20, via("10.0.0.2", 1))),
            Effect::Changed
        );
        assert_eq!(
            state.add(route("10.9.0.0/16", 30, via("10.0.0.3", 1))),
            Effect::Nothing
        );
        assert_eq!(interfaces(&state, "10.9.0.1"), [1]);
        let Update::Route(prefix, gone) = update("10.9.0.0/16", vec![]) else {
            unreachable!()
        };
        assert_eq!(
            state.remove(route("10.9.0.0/16", 20, via("10.0.0.2", 1))),
            Effect::Changed
        );
        assert_eq!(interfaces(&state, "10.9.0.1"), [2]);
        let gone = Update::NoRoute(prefix, gone);
        assert_eq!(state.apply_fpm(gone), Ok(Effect::Changed));
        assert_eq!(state.hops("10.9.0.1")[0].gateway, Some(ip("10.0.0.3")));
        assert_eq!(state.fpm_counts().routes, 0);
    }

    #[test]
    fn what_a_replay_does_not_repeat_is_removed_at_its_end() {
        let mut state = state();
        state.begin_fpm_replay();
        for update in [single(1, 1), single(2, 2)] {
            state.apply_fpm(update).unwrap();
        }
        for (prefix, id) in [("10.8.0.0/16", 1), ("10.9.0.0/16", 2)] {
            state.apply_fpm(by_object(prefix, id)).unwrap();
        }
        assert_eq!(state.end_fpm_replay(), Effect::Nothing);
        state.begin_fpm_replay();
        // A new zebra numbers its objects from the start again.
        assert_eq!(state.apply_fpm(single(2, 1)), Ok(Effect::Nothing));
        assert_eq!(state.apply_fpm(single(1, 1)), Ok(Effect::Nothing));
        assert_eq!(
            state.apply_fpm(by_object("10.8.0.0/16", 1)),
            Ok(Effect::Nothing)
        );
        assert_eq!(interfaces(&state, "10.9.0.1"), [2]);
        assert_eq!(state.end_fpm_replay(), Effect::Changed);
        assert_eq!(state.action("10.9.0.1"), None);
        assert_eq!(interfaces(&state, "10.8.0.1"), [1]);
        let counts = state.fpm_counts();
        assert_eq!((counts.routes, counts.objects), (1, 2));
    }

    #[test]
    fn routes_survive_a_new_reading_and_follow_its_interfaces() {
        let mut old = state();
        old.apply_fpm(single(1, 1)).unwrap();
        old.apply_fpm(by_object("10.8.0.0/16", 1)).unwrap();
        let update = update("10.9.0.0/16", via("10.0.0.2", 3));
        assert_eq!(old.apply_fpm(update), Ok(Effect::Nothing)); // the kernel has not yet told of the interface
        assert_eq!(set_link(&mut old, 3, LinkFlags::Up), Effect::Reread);
        let mut new = TableState::default();
        set_link(&mut new, 3, LinkFlags::Up);
        let counts = old.fpm_counts();
        new.join_fpm(old.into_fpm());
        assert_eq!(new.fpm_counts(), counts);
        assert_eq!(interfaces(&new, "10.9.0.1"), [3]);
        assert_eq!(new.action("10.8.0.1"), None);
    }
}
