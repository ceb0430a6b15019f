//! A CE among several: it follows, leads, and stops leading.

use weir_base::Span;
use weir_base::setting::Scalar;
use weir_ce::contract::{Answer, LogEvent, Records, Refusal, Request};
use weir_ce::desired::DesiredValue;
use weir_protocol::session::ce::LinkId;
use weir_protocol::wire::{Content, Id};

use super::double::{Box, CE, World};
use super::{SOON, desired, path, plan, set, state};

/// How long a follower holds an FE while another CE leads.
const HOLD: Span = Span::from_secs(4);
const LEASE: Span = Span::from_secs(2);
const FE: Id = Id(1);

/// A CE that follows, and an FE with this master.
fn world(master: Id) -> World {
    let rate = desired(&[("port.wan.rate", "5 Mbit")]);
    let mut world = World::new(vec![("edge1", rate, Box::of(&plan()))]);
    world.control.share(world.now, HOLD);
    obey(&mut world, master);
    world.run(SOON);
    world
}

/// Makes a CE the master of the FE (CEID).
fn obey(world: &mut World, master: Id) {
    let values = &mut world.fes.get_mut(&FE).unwrap().state.values;
    let id = Content::Full(master.0.to_be_bytes().to_vec());
    values.insert(((2, 1), vec![8]), id);
}

fn lead(world: &mut World) {
    let until = world.now + LEASE;
    world.control.lead(world.now, until);
}

fn set_rate(world: &mut World, rate: &str) -> Result<Answer, Refusal> {
    let operations = vec![set("port.wan.rate", rate)];
    world.ask(Request::Change(vec![("edge1".to_owned(), operations)]))
}

fn refusal(world: &mut World) -> String {
    set_rate(world, "9 Mbit").unwrap_err().to_string()
}

fn link(world: &World) -> Option<LinkId> {
    world.control.links().next().map(|(_, link)| link)
}

fn changes(world: &World) -> usize {
    world.fes[&FE].state.changes
}

#[test]
fn a_follower_changes_nothing_and_restores_the_fe_when_it_leads() {
    let mut world = world(CE);
    world.run(HOLD + HOLD); // there is no other leader, so it may be the next
    assert_eq!((state(&world).as_str(), changes(&world)), ("away", 0));
    assert!(link(&world).is_some());
    assert!(refusal(&mut world).contains("it knows of none"));
    world.control.follow(world.now, Some("ce-b".to_owned()));
    assert_eq!(refusal(&mut world), "this CE is not the leader: ce-b is");
    let kept = Records {
        desired: vec![(
            path("port.wan.rate"),
            Some(DesiredValue::Is(Scalar::Text("7 Mbit".to_owned()))),
        )],
        ..Records::default()
    };
    world
        .control
        .replace_kept(vec![("edge1".to_owned(), kept)], false);
    lead(&mut world);
    world.run(SOON);
    assert_eq!(state(&world), "in sync", "{:?}", world.journal);
    let rate = super::config(&mut world, "edge1", "port.wan.rate");
    assert_eq!(rate, "7 Mbit", "what the other leader has set");
    assert!(set_rate(&mut world, "8 Mbit").is_ok());
    // Without what operators have set, the configuration counts.
    world.control.follow(world.now, None);
    world.control.replace_kept(Vec::new(), true);
    world.run(Span::from_secs(1));
    lead(&mut world);
    world.run(SOON);
    let rate = super::config(&mut world, "edge1", "port.wan.rate");
    assert_eq!(rate, "5 Mbit");
}

#[test]
fn a_leader_without_renewal_ends_its_associations_in_time() {
    let mut world = world(CE);
    lead(&mut world);
    world.run(SOON);
    assert_eq!(state(&world), "in sync");
    world.run(LEASE);
    assert_eq!(
        world.journal.last(),
        Some(&LogEvent::Lost("edge1".to_owned(), "ended here".to_owned()))
    );
    assert!(refusal(&mut world).contains("not the leader"));
    // The process stands still with a change that it has begun.
    world.run(Span::from_secs(1));
    lead(&mut world);
    world.run(SOON);
    let before = changes(&world);
    let ticket = world.begin(Request::Change(vec![(
        "edge1".to_owned(),
        vec![set("port.wan.rate", "9 Mbit")],
    )]));
    world.now += LEASE;
    world.run(SOON);
    assert_eq!(changes(&world), before, "{:?}", world.answers.get(&ticket));
    assert!(world.answers.contains_key(&ticket));
}

#[test]
fn a_follower_releases_its_fe_for_another_leader() {
    let mut world = world(CE);
    let before = link(&world);
    world.control.follow(world.now, Some("ce-b".to_owned()));
    world.run(Span::from_secs(1));
    assert_ne!(link(&world), before, "ce-b has become the leader since");
    let before = link(&world);
    world.run(HOLD);
    world.run(Span::from_secs(1));
    assert_ne!(link(&world), before, "ce-b has led for long");
    assert_eq!(changes(&world), 0);
}

#[test]
fn a_leader_waits_until_it_is_the_master() {
    let mut world = world(Id(CE.0 + 1));
    let before = link(&world);
    world.control.follow(world.now, Some("ce-b".to_owned()));
    world.run(HOLD + HOLD);
    assert_eq!(link(&world), before, "the FE obeys another CE");
    lead(&mut world);
    world.run(Span::from_secs(1));
    assert_eq!((state(&world).as_str(), changes(&world)), ("away", 0));
    obey(&mut world, CE);
    world.run(Span::from_millis(200));
    assert_eq!(state(&world), "in sync");
}
