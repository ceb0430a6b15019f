//! Libraries in XML: reading, checking, and errors with their line.

use crate::fixtures::fixtures;
use proptest::prelude::*;
use weir_protocol::schema::{Access, Class, Condition, Integer, Kind, Registry, Size, Step};

const EXAMPLE: &str = include_str!("library.xml");

/// The registry with this library alone, or the error.
fn load(text: &str) -> Result<Registry, String> {
    let mut registry = Registry::default();
    let loaded = registry.load(text).map_err(|error| error.to_string());
    loaded.map(|_| registry)
}

fn example(class: &str) -> Class {
    load(EXAMPLE).unwrap().find(class).unwrap().clone()
}

#[test]
fn every_type_that_a_library_can_have_is_read() {
    let class = example("Ext-Meter");
    let kinds: Vec<_> = class.components.iter().map(|c| &c.kind).collect();
    let [count, rows, four, other, most] = kinds[..] else {
        panic!("five parts");
    };
    assert_eq!(*count, Kind::Number(Integer::Uint64.into()));
    assert_eq!(*most, Kind::Number(Integer::Uint32.into()));
    assert_eq!(*other, Kind::Alias(Box::new(most.clone())));
    let [rows, four] = [rows, four].map(|kind| kind.array().unwrap());
    assert_eq!(
        (rows.size, four.size),
        (Size::Variable(Some(9)), Size::Fixed(4))
    );
    assert_eq!(four.keys[0].fields, [vec![0; 0]]);
    assert_eq!(rows.keys[0].fields, [vec![1], vec![3, 1]]);
    let Kind::Struct(triple) = &rows.element else {
        panic!("a struct");
    };
    let members = triple
        .iter()
        .map(|m| (m.id, &*m.name, m.optional, m.access));
    let (read, write) = (Access::ReadOnly, Access::ReadWrite);
    let expected = [
        (1, "First", false, read),
        (2, "Second", true, write),
        (3, "Third", false, write),
    ];
    assert!(members.eq(expected));
    let Kind::Number(level) = &triple[1].kind else {
        panic!("a number");
    };
    assert_eq!(
        (level.base, &level.ranges[..]),
        (Integer::Uint8, &[(0, 100), (255, 255)][..])
    );
    let unknown = &level.names[0];
    assert_eq!(
        (unknown.value, &*unknown.name, &*unknown.about),
        (255, "Unknown", "not measured")
    );
    let Kind::Union(third) = &triple[2].kind else {
        panic!("a union");
    };
    let kinds = third.iter().map(|member| member.kind.clone());
    assert!(kinds.eq([Kind::Text(Some(16)), Kind::Bytes(6)]));
}

#[test]
fn a_class_has_its_components_and_events() {
    let class = example("Ext-Meter");
    assert_eq!(
        (class.id, class.version.as_str(), class.events_base),
        (65537, "1.0", Some(60))
    );
    let parts = class
        .components
        .iter()
        .map(|c| (c.id, c.access, c.is_capability));
    let write = Access::ReadWrite;
    assert!(parts.eq([
        (1, Access::ReadReset, false),
        (2, write, false),
        (3, write, false),
        (4, write, false),
        (30, Access::ReadOnly, true),
    ]));
    let [gone, above] = &class.events[..] else {
        panic!("two events");
    };
    assert_eq!((gone.id, gone.condition), (1, Condition::Deleted));
    assert_eq!(gone.target, [Step::Member(2), Step::AnyRow]);
    assert_eq!(
        (above.condition, &above.target[..]),
        (
            Condition::GreaterThan,
            &[Step::Member(2), Step::Row(3), Step::Member(1)][..]
        )
    );
    assert_eq!(above.reports, [[Step::Member(1)]]);
    let derived = example("Ext-Meter2");
    assert_eq!((derived.events_base, derived.events.len()), (Some(60), 3));
    assert_eq!(derived.components, class.components);
}

/// The example with a part of its text replaced.
fn changed(old: &str, new: &str) -> String {
    assert!(EXAMPLE.contains(old), "{old}");
    EXAMPLE.replacen(old, new, 1)
}

fn wrong(text: &str) -> String {
    load(text).unwrap_err()
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (old, new, expected) in [
        (
            "<frameDefs>",
            "<frame/><frameDefs>",
            "line 6: `frame` is not permitted in `LFBLibrary`, which may contain description, load,",
        ),
        ("<name>Small</name>", "", "line 7: `frameDef` has no name"),
        (
            "<name>Small</name>",
            "<name/>",
            "line 7: a name is ``, but must be at least one character",
        ),
        (
            "<name>Small</name>",
            "<name>a</name><name>b</name>",
            "line 7: `frameDef` has more than one name",
        ),
        (
            "max=\"100\"",
            "max=\"-1\"",
            "line 12: max is `-1`, but must be at least min",
        ),
        (
            "min=\"0\"",
            "min=\"x\"",
            "line 12: min is `x`, but must be an integer",
        ),
        (
            "<typeRef>byte[6]</typeRef>",
            "<typeRef>byte[x]</typeRef>",
            "line 28: the length of a type is `x`",
        ),
        (
            "<typeRef>byte[6]</typeRef>",
            "<typeRef>bit[6]</typeRef>",
            "line 28: a type is `bit[6]`, but must be the name",
        ),
        (
            "<typeRef>byte[6]</typeRef>",
            "",
            "line 28: `component` has no type: typeRef, atomic,",
        ),
        (
            "<typeRef>byte[6]</typeRef>",
            "<typeRef>uchar</typeRef><alias/>",
            "line 28: `component` has more than one type",
        ),
        (
            "<typeRef>byte[6]</typeRef>",
            "<typeRef>Bite</typeRef>",
            "line 28: there is no type `Bite` here or in the loaded libraries: Base",
        ),
        (
            "componentID=\"2\"><name>Raw",
            "componentID=\"1\"><name>Raw",
            "line 28: the ID 1 is declared twice",
        ),
        (
            "componentID=\"2\"><name>Raw",
            "componentID=\"0\"><name>Raw",
            "line 28: componentID is `0`, but must be a number from 1",
        ),
        (
            "componentID=\"2\"><name>Raw",
            "componentID=\"two\"><name>Raw",
            "line 28: componentID is `two`, but must be a number",
        ),
        (
            "componentID=\"2\"><name>Raw",
            "><name>Raw",
            "line 28: `component` has no componentID",
        ),
        (
            "<name>Triple</name>",
            "<name>Pair</name>",
            "line 23: the type Pair is declared twice",
        ),
        (
            "<derivedFrom>Pair<",
            "<derivedFrom>Triple<",
            "line 23: the type `Triple` contains itself",
        ),
        (
            "2147483649",
            "4294967296",
            "line 34: the ID of a metadatum is `4294967296`",
        ),
        (
            "LFBClassID=\"65538\"",
            "LFBClassID=\"65537\"",
            "line 74: the class ID 65537 is declared twice",
        ),
        (
            "LFBClassID=\"65538\"",
            "LFBClassID=\"0\"",
            "line 74: LFBClassID is `0`, but must be a number from 1",
        ),
        (
            "componentID=\"30\"",
            "componentID=\"4\"",
            "line 62: the ID 4 is declared twice",
        ),
        (
            "baseID=\"60\"",
            "baseID=\"30\"",
            "line 37: the ID 30 is declared twice",
        ),
        (" baseID=\"60\"", "", "line 64: `events` has no baseID"),
        (
            "access=\"read-reset\"",
            "access=\"reed\"",
            "line 52: access is `reed`, but must be read-only, read-write,",
        ),
        (
            "type=\"fixed-size\" length=\"4\"",
            "type=\"fixed-size\"",
            "line 57: `array` has no length",
        ),
        (
            "type=\"fixed-size\"",
            "type=\"fixed\"",
            "line 57: the type of an array is `fixed`, but must be",
        ),
        (
            "<contentKeyField>Third.Text<",
            "<contentKeyField>Third.Tex<",
            "line 55: there is no member `Tex`",
        ),
        ("<eventDeleted/>", "", "line 65: `event` has no condition"),
        (
            "<eventDeleted/>",
            "<eventDeleted/><eventChanged/>",
            "line 65: `event` has more than one condition",
        ),
        (
            "<eventField>Count</eventField></eventReport>",
            "<eventField>Counts</eventField></eventReport>",
            "line 68: there is no component `Counts`",
        ),
        (
            "<eventTarget><eventField>Count<",
            "<eventTarget><eventField>Most</eventField><eventSubscript>1</eventSubscript><eventField>Count<",
            "line 77: there is no table with row `1`",
        ),
        (
            "<derivedFrom>Ext-Meter<",
            "<derivedFrom>Ext-Metre<",
            "line 74: there is no class `Ext-Metre`",
        ),
        (
            "dependency=\"optional\" defaultValue=\"7\"",
            "dependency=\"optional\"",
            "line 42: `ref` has no defaultValue",
        ),
        (
            "availability=\"conditional\"",
            "availability=\"maybe\"",
            "line 49: availability is `maybe`",
        ),
        (
            "group=\"true\"",
            "group=\"yes\"",
            "line 39: group is `yes`, but must be true or false",
        ),
        (
            "lfbmodel:1.1",
            "lfbmodel:3.0",
            "line 3: the document is `LFBLibrary`, but must be",
        ),
        ("</frameDefs>", "</frames>", "line 8: expected"),
        (
            "<version>1.1<",
            "<version>1<",
            "line 74: a version is `1`, but must be two numbers",
        ),
    ] {
        let error = wrong(&changed(old, new));
        assert!(error.starts_with(expected), "{error}, and not {expected}");
    }
}

#[test]
fn what_is_loaded_may_be_named() {
    let text = changed("<typeRef>byte[6]</typeRef>", "<typeRef>Mac</typeRef>");
    assert!(load(&text).is_err());
    let other =
        types("<dataTypeDef><name>Mac</name><synopsis/><typeRef>byte[6]</typeRef></dataTypeDef>");
    let mut registry =
        load(&other.replace("><dataTypeDefs", " provides=\"Base\"><dataTypeDefs")).unwrap();
    registry.load(&text).unwrap();
}

/// A library with these types.
fn types(types: &str) -> String {
    let start = r#"<LFBLibrary xmlns="urn:ietf:params:xml:ns:forces:lfbmodel:1.0"><dataTypeDefs>"#;
    format!("{start}{types}</dataTypeDefs></LFBLibrary>")
}

#[test]
fn hostile_libraries_cost_little() {
    let long = wrong(&" ".repeat((4 << 20) + 1));
    assert!(
        long.starts_with("line 1: the library has 4194305 bytes"),
        "{long}"
    );
    let array = |levels: usize| {
        let (open, close) = ("<array>".repeat(levels), "</array>".repeat(levels));
        let ty = format!("{open}<typeRef>uchar</typeRef>{close}");
        types(&format!(
            "<dataTypeDef><name>A</name><synopsis/>{ty}</dataTypeDef>"
        ))
    };
    assert!(load(&array(15)).is_ok());
    let deep = wrong(&array(16));
    assert!(deep.ends_with("types are nested deeper than 16"), "{deep}");
    assert!(load(&array(200_000)).is_err());

    // Every type has ten members of the next type: checking every path through them would not terminate in practice.
    let mut all = String::new();
    for level in 0..15 {
        all += &format!("<dataTypeDef><name>T{level}</name><synopsis/><struct>");
        for id in 1..=10 {
            let next = if level == 14 {
                "uchar".into()
            } else {
                format!("T{}", level + 1)
            };
            all += &format!(
                "<component componentID=\"{id}\"><name>M{id}</name><synopsis/><typeRef>{next}</typeRef></component>"
            );
        }
        all += "</struct></dataTypeDef>";
    }
    load(&types(&all)).unwrap();

    let entity = format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", types(""));
    assert!(wrong(&entity).contains("DTD"), "{}", wrong(&entity));
}

#[test]
fn libraries_of_others_are_read() {
    for file in fixtures("xml") {
        let text = std::fs::read_to_string(file).unwrap();
        match load(&text) {
            Ok(registry) => assert!(registry.all().count() > 0 || text.contains("dataTypeDef")),
            // Only a name in a library that was not loaded may be unknown.
            Err(error) => assert!(error.contains("in the loaded libraries: "), "{error}"),
        }
    }
}

proptest! {
    #[test]
    fn no_change_makes_reading_panic(
        at in any::<prop::sample::Index>(), len in 0_usize..60, new in "[a-z<>/=\" 0-9]{0,12}",
    ) {
        let start = at.index(EXAMPLE.len());
        let end = (start + len).min(EXAMPLE.len());
        let text = format!("{}{new}{}", &EXAMPLE[..start], &EXAMPLE[end..]);
        let mut registry = Registry::default();
        if let Err(error) = registry.load(&text) {
            prop_assert!(error.line.unwrap() as usize <= text.lines().count() + 1);
        }
    }
}
