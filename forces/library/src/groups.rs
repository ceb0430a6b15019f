//! Groups of next hops, to which `ECMPFlag` of a prefix leads. RFC 6956 (5.3.1) leaves this LFB to vendors.
//!
//! ```text
//!  IPv4UcastLPM                       ipv4_next_hop_groups                      IPv4NextHop
//!  row 7: 10.0.0.0/8 --ECMPFlag--> 3  row 3: next_hop 5, weight 2         ----> row 5: 192.0.2.1, port 2
//!                                            next_hop 6, weight 1         ----> row 6: 192.0.2.9, port 3
//!  row 8: 11.0.0.0/8 --ECMPFlag--> 4  row 4: action blackhole
//! ```
//!
//! An FE without these LFBs has one next hop for a prefix, and no routes that drop packets.

use weir_base::setting::Kind as Setting;
use weir_model::class::{Class, Component, Type};
use weir_model::target::HOPS_MAX;
use weir_model::{Discard, Target, Value};
use weir_protocol::schema;
use weir_protocol::value::{self, ValueError};
use weir_protocol::wire::Content;

/// Component with the rows.
const TABLE: u32 = 1;
/// Actions of a group: `forward` if it has next hops, otherwise a word of [`Discard::ALL`].
const ACTIONS: &[&str] = &["forward", "blackhole", "unreachable", "prohibit"];

/// Groups of next hops of IPv4.
pub const IPV4: Class = Class {
    name: "ipv4_next_hop_groups",
    id: 0x00F7_0340,
    about: "groups of IPv4 next hops, for prefixes with ECMPFlag",
    components: GROUPS,
    ..Class::PLAIN
};
/// Groups of next hops of IPv6.
pub const IPV6: Class = Class {
    name: "ipv6_next_hop_groups",
    id: 0x00F7_0341,
    about: "groups of IPv6 next hops, for prefixes with ECMPFlag",
    components: GROUPS,
    ..Class::PLAIN
};

const GROUPS: &[Component] = &[Component::new(TABLE, "groups", Type::Rows(GROUP), "")
    .about("The groups; HopSelector of a prefix with ECMPFlag is the row of its group.")
    .settable()];
const GROUP: &[Component] = &[
    Component::new(1, "members", Type::Rows(MEMBER), "")
        .about("The next hops, at most 256; flows are spread over them by weight.")
        .settable(),
    Component::new(
        2,
        "action",
        Type::Setting(Some(Setting::Word(ACTIONS))),
        "forward",
    )
    .about("`forward`; or how packets are dropped, if there are no members.")
    .settable(),
];
const MEMBER: &[Component] = &[
    Component::new(
        1,
        "next_hop",
        Type::Setting(Some(Setting::Count(0, u32::MAX as u64))),
        "5",
    )
    .about("Row of the table of next hops.")
    .settable(),
    Component::new(
        2,
        "weight",
        Type::Setting(Some(Setting::Count(1, HOPS_MAX as u64))),
        "1",
    )
    .about("Share of the flows, relative to the other members.")
    .settable(),
];

/// Encodes a row; the target has the rows of its next hops.
pub fn encode(target: &Target<u32>) -> Result<Content, ValueError> {
    let member = |(row, weight): (&u32, u16)| {
        let weight = u64::from(weight).into();
        Value::Struct(vec![
            ("next_hop".into(), u64::from(*row).into()),
            ("weight".into(), weight),
        ])
    };
    let action = match target {
        Target::Discard(discard) => discard.word(),
        _ => ACTIONS[0],
    };
    let row = Value::Struct(vec![
        (
            "members".into(),
            Value::List(target.hops().map(member).collect()),
        ),
        ("action".into(), action.into()),
    ]);
    let class = schema::Class::of(&IPV4);
    let kind = class
        .component(&[TABLE, 0])
        .map(|target| target.kind.into_owned());
    let kind = kind.unwrap_or_else(|error| unreachable!("{error}"));
    value::encode(&kind, &row)
}

/// The target in a row; `None` if the row has no such meaning.
pub fn read(row: &Value) -> Option<Target<u32>> {
    let members: Vec<&Value> = match row.get("members")? {
        Value::List(members) => members.iter().collect(),
        Value::Struct(members) => members.iter().map(|(_, member)| member).collect(),
        _ => return None,
    };
    let action = row.text("action")?;
    if let Some(discard) = Discard::ALL
        .into_iter()
        .find(|discard| discard.word() == action)
    {
        return members.is_empty().then_some(Target::Discard(discard));
    }
    let member = |member: &&Value| {
        let number = |name| member.whole(name);
        Some((
            number("next_hop")?.try_into().ok()?,
            number("weight")?.try_into().ok()?,
        ))
    };
    let all = members.iter().map(member).collect::<Option<Vec<_>>>()?;
    Target::of_hops(all).filter(|_| members.len() <= HOPS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_the_wire() {
        let class = schema::Class::of(&IPV6);
        let kind = class.component(&[TABLE, 7]).unwrap().kind.into_owned();
        let several = Target::of_hops([(65536, 1), (70000, 256)]).unwrap();
        let discards = Discard::ALL.map(Target::Discard);
        for target in [several, Target::Hop(7)].into_iter().chain(discards) {
            let content = encode(&target).unwrap();
            assert!(
                matches!(content, Content::Full(_)),
                "it replaces a row as a whole"
            );
            assert_eq!(read(&value::decode(&kind, &content).unwrap()), Some(target));
        }
    }

    #[test]
    fn a_row_without_a_meaning_is_no_target() {
        let row = |members: Vec<Value>, action: &str| {
            Value::Struct(vec![
                ("members".into(), Value::List(members)),
                ("action".into(), action.into()),
            ])
        };
        let member = Value::Struct(vec![
            ("next_hop".into(), 1_u64.into()),
            ("weight".into(), 1_u64.into()),
        ]);
        assert_eq!(read(&row(vec![], "forward")), None);
        assert_eq!(read(&row(vec![member.clone()], "blackhole")), None);
        assert_eq!(read(&row(vec![member; HOPS_MAX + 1], "forward")), None);
        assert_eq!(read(&Value::Absent), None);
    }
}
