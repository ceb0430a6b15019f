//! Libraries in XML: reading, checking, and errors with their line.

#![allow(clippy::unwrap_used)] // helpers of tests fail like tests

mod fixtures;

use fixtures::fixtures;
use proptest::prelude::*;
use weir_protocol::xml::{
    Access, BYTES_MAX, Basic, Condition, Fault, Library, Size, Step, Type, TypeRef, XmlError,
};

const EXAMPLE: &str = include_str!("library.xml");

fn example() -> Library {
    Library::read(EXAMPLE).unwrap()
}

#[test]
fn everything_that_a_library_can_have_is_read() {
    let library = example();
    library.check(&[]).unwrap();
    assert_eq!(library.provides.as_deref(), Some("Example"));
    assert_eq!(library.description.as_deref(), Some("An example"));
    assert_eq!(library.loads[0].library, "Base");
    assert_eq!(library.loads[0].location.as_deref(), Some("base.xml"));
    assert_eq!(library.frames[0].doc.name, "Small");
    assert_eq!(
        (library.metadata[0].id, library.types.len()),
        (0x8000_0001, 3)
    );

    let Type::Atomic(level) = &library.named_type("Level").unwrap().ty else {
        panic!("a number");
    };
    assert_eq!(level.base, TypeRef::Basic(Basic::Uchar));
    assert_eq!(level.ranges, [(0, 100), (255, 255)]);
    assert_eq!(
        (level.special[0].value, level.special[0].doc.name.as_str()),
        (255, "Unknown")
    );
    let pair = library.named_type("Pair").unwrap();
    assert_eq!(
        (pair.doc.line, pair.doc.description.as_deref()),
        (17, Some("Both."))
    );
    let Type::Struct(pair) = &pair.ty else {
        panic!("a struct");
    };
    assert_eq!(
        pair.members.iter().map(|m| m.optional).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(pair.members[0].access, Some(Access::ReadOnly));
    let Type::Struct(triple) = &library.named_type("Triple").unwrap().ty else {
        panic!("a struct");
    };
    assert_eq!(triple.derived_from.as_deref(), Some("Pair"));
    let Type::Union(third) = &triple.members[0].ty else {
        panic!("a union");
    };
    let types: Vec<_> = third.members.iter().map(|m| m.ty.clone()).collect();
    let basic = |basic| Type::Ref(TypeRef::Basic(basic));
    assert_eq!(
        types,
        [basic(Basic::Text(Some(16))), basic(Basic::Bytes(6))]
    );
}

#[test]
fn a_class_has_its_ports_components_and_events() {
    let library = example();
    let class = library.class("Ext-Meter").unwrap();
    assert_eq!(
        (class.id, class.version.as_str(), class.events_base),
        (65537, "1.0", Some(60))
    );
    let input = &class.inputs[0];
    assert_eq!(
        (input.group, input.frames.len(), input.metadata.len()),
        (true, 2, 2)
    );
    assert_eq!(input.metadata[0][0].default.as_deref(), Some("7"));
    assert_eq!(input.metadata[1].len(), 2, "one of two");
    assert_eq!(class.outputs[0].metadata, [("Colour".into(), false)]);

    let ids: Vec<_> = class.components.iter().map(|c| (c.id, c.access)).collect();
    let (reset, write) = (Some(Access::ReadReset), Some(Access::ReadWrite));
    assert_eq!(ids, [(1, reset), (2, write), (3, None), (4, None)]);
    let tables = class.components[1..3].iter().map(|c| match &c.ty {
        Type::Array(array) => (array.size, array.keys[0].fields.clone()),
        other => panic!("{other:?}"),
    });
    let key = vec![
        vec!["First".to_owned()],
        vec!["Third".into(), "Text".into()],
    ];
    assert!(tables.eq([
        (Size::Variable(Some(9)), key),
        (Size::Fixed(4), vec![vec![]])
    ]));
    assert_eq!(
        class.components[3].ty,
        Type::Alias(TypeRef::Basic(Basic::Uint32))
    );
    assert_eq!(
        (
            class.capabilities[0].id,
            class.capabilities[0].doc.name.as_str()
        ),
        (30, "Most")
    );

    let [gone, above] = &class.events[..] else {
        panic!("two events");
    };
    assert_eq!((gone.id, gone.condition), (1, Condition::Deleted));
    assert_eq!(
        gone.target,
        [Step::Field("Rows".into()), Step::AnyRow("_row_".into())]
    );
    let first = [
        Step::Field("Rows".into()),
        Step::Row(3),
        Step::Field("First".into()),
    ];
    assert_eq!(
        (above.condition, &above.target[..]),
        (Condition::GreaterThan, &first[..])
    );
    assert_eq!(above.reports, [[Step::Field("Count".into())]]);
    let derived = library.class("Ext-Meter2").unwrap();
    assert_eq!(
        (derived.derived_from.as_deref(), derived.events_base),
        (Some("Ext-Meter"), None)
    );
}

/// The example with a part of its text replaced.
fn changed(old: &str, new: &str) -> String {
    assert!(EXAMPLE.contains(old), "{old}");
    EXAMPLE.replacen(old, new, 1)
}

fn wrong(text: &str) -> XmlError {
    match Library::read(text) {
        Ok(library) => library.check(&[]).unwrap_err(),
        Err(error) => error,
    }
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
        let error = wrong(&changed(old, new)).to_string();
        assert!(error.starts_with(expected), "{error}, and not {expected}");
    }
}

#[test]
fn what_is_loaded_may_be_named() {
    let text = changed("<typeRef>byte[6]</typeRef>", "<typeRef>Mac</typeRef>");
    let library = Library::read(&text).unwrap();
    assert!(library.check(&[]).is_err());
    let other = r#"<LFBLibrary xmlns="urn:ietf:params:xml:ns:forces:lfbmodel:1.0"><dataTypeDefs>
        <dataTypeDef><name>Mac</name><synopsis/><typeRef>byte[6]</typeRef></dataTypeDef>
        </dataTypeDefs></LFBLibrary>"#;
    library.check(&[&Library::read(other).unwrap()]).unwrap();
}

/// A library with these types.
fn types(types: &str) -> String {
    let start = r#"<LFBLibrary xmlns="urn:ietf:params:xml:ns:forces:lfbmodel:1.0"><dataTypeDefs>"#;
    format!("{start}{types}</dataTypeDefs></LFBLibrary>")
}

#[test]
fn hostile_libraries_cost_little() {
    assert!(matches!(
        wrong(&" ".repeat(BYTES_MAX + 1)).fault,
        Fault::TooLong(_)
    ));
    let array = |levels: usize| {
        let (open, close) = ("<array>".repeat(levels), "</array>".repeat(levels));
        let ty = format!("{open}<typeRef>uchar</typeRef>{close}");
        types(&format!(
            "<dataTypeDef><name>A</name><synopsis/>{ty}</dataTypeDef>"
        ))
    };
    assert!(Library::read(&array(15)).is_ok());
    assert_eq!(wrong(&array(16)).fault, Fault::Nesting);
    assert!(Library::read(&array(200_000)).is_err());

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
    Library::read(&types(&all)).unwrap().check(&[]).unwrap();

    let entity = format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{}", types(""));
    assert!(matches!(wrong(&entity).fault, Fault::NotXml(_)));
}

#[test]
fn libraries_of_others_are_read() {
    for file in fixtures("xml") {
        let text = std::fs::read_to_string(file).unwrap();
        let library = Library::read(&text).unwrap();
        assert!(!library.classes.is_empty() || !library.types.is_empty());
        if library.loads.is_empty() {
            library.check(&[]).unwrap();
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
        match Library::read(&text) {
            Ok(library) => drop(library.check(&[])),
            Err(error) => prop_assert!(error.line as usize <= text.lines().count() + 1),
        }
    }
}
