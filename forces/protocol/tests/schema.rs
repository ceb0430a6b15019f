//! Schemas, from other libraries, from the standards and from our own declarations; paths by names, IDs and keys.

use weir_model::Value;
use weir_model::class::{Condition, Event};
use weir_protocol::schema::{Access, Class, Kind, PARTS_MAX, Registry, Step};
use weir_protocol::value::{decode, encode, key_values};
use weir_protocol::wire::{Content, ResultCode, Selector};

const VENDOR: &str = include_str!("vendor.xml");

fn registry() -> Registry {
    let mut registry = Registry::standard();
    assert_eq!(registry.load(VENDOR), Ok(vec![7_000_001, 7_000_002]));
    registry
}

fn thermometer() -> Class {
    registry().find("AcmeThermometer").unwrap().clone()
}

fn members(members: &[(&'static str, Value)]) -> Value {
    Value::Struct(
        members
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()))
            .collect(),
    )
}

#[test]
fn a_class_is_found_by_its_names_and_its_id() {
    let registry = registry();
    for word in [
        "AcmeThermometer",
        "Ext-AcmeThermometer",
        "7000001",
        "0x6ACFC1",
    ] {
        assert_eq!(registry.find(word).unwrap().id, 7_000_001, "{word}");
    }
    let error = registry.find("AcmeThermo").unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no class `AcmeThermo`; did you mean `AcmeThermometer`?"
    );
    let known: Vec<_> = registry.all().map(|class| class.id).collect();
    assert_eq!(known[..17], (1..=17).collect::<Vec<_>>());
}

#[test]
fn names_are_resolved_and_parents_inherited() {
    let class = thermometer();
    let sensors = class.component(&[1]).unwrap();
    let array = sensors.kind.array().unwrap();
    let names: Vec<_> = array
        .element
        .members()
        .iter()
        .map(|m| (m.id, &*m.name))
        .collect();
    assert_eq!(
        names,
        [(1, "Mac"), (2, "Vlan"), (3, "Celsius"), (4, "Place")]
    );
    assert_eq!(array.element.members()[0].kind, Kind::Bytes(6));
    let keys: Vec<_> = array.keys.iter().map(|key| key.fields.clone()).collect();
    assert_eq!(keys, [vec![vec![1]], vec![vec![2], vec![4]]]);
    // A member has the access of its parent, unless it has its own.
    assert_eq!(
        class.component(&[1, 0, 2]).unwrap().access,
        Access::ReadWrite
    );
    assert_eq!(
        class.component(&[1, 0, 3]).unwrap().access,
        Access::ReadOnly
    );
    assert!(
        class
            .component(&[30])
            .unwrap()
            .component
            .unwrap()
            .is_capability
    );
    assert_eq!(
        class
            .component(&[2])
            .unwrap()
            .component
            .unwrap()
            .default
            .as_deref(),
        Some("60")
    );
    // An alias has the values of its target.
    let status = class.component(&[4]).unwrap();
    assert_eq!(
        decode(&status.kind, &Content::Full(vec![1])),
        Ok("Up".into())
    );

    let port = registry().find("AcmePort").unwrap().clone();
    let ids: Vec<_> = port
        .components
        .iter()
        .map(|component| component.id)
        .collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8, 9, 30, 31]);
    let events: Vec<_> = port
        .events
        .iter()
        .map(|event| (event.id, event.target.clone()))
        .collect();
    assert_eq!(events[0], (1, vec![Step::Member(3)]));
    assert_eq!(events[3], (4, vec![Step::Member(9)]));
    assert_eq!(port.events_base, Some(60));
}

#[test]
fn paths_by_names_are_paths_by_ids() {
    let class = thermometer();
    let ids = |words: &[&str]| {
        let way = class.way(words).map_err(|error| error.to_string());
        way.map(|way| way.ids)
    };
    for (words, path) in [
        (&["Limit"][..], &[2][..]),
        (&["2"], &[2]),
        (&["Sensors", "7", "Celsius"], &[1, 7, 3]),
        (&["1", "7", "3"], &[1, 7, 3]),
        (&["TooWarm"], &[60, 2]),
        (&["TooWarm", "7"], &[60, 2, 7]),
        (&["60", "2", "7"], &[60, 2, 7]),
        (&["60"], &[60]),
        (&[], &[]),
    ] {
        assert_eq!(ids(words).as_deref(), Ok(path), "{words:?}");
    }
    assert_eq!(class.names(&[1, 7, 3]).to_string(), "Sensors.7.Celsius");
    assert_eq!(class.names(&[60, 2, 7]).to_string(), "TooWarm.7");
    assert_eq!(class.names(&[1, 7, 9, 1]).to_string(), "Sensors.7.9.1");
    for (words, expected) in [
        (
            &["Limits"][..],
            "there is no component `Limits` in AcmeThermometer; did you mean `Limit`?",
        ),
        (
            &["Limit", "1"],
            "`Limit` is a single value: there is no `1` in it",
        ),
        (
            &["Sensors", "warm"],
            "octets in hexadecimal, like 0a:00:00:01",
        ),
        (
            &["Sensors", "x=1"],
            "or the content of a key: Mac=.. or Vlan=..,Place=..",
        ),
        (&["Sensors", "0", "99"], "there is no component `99`"),
    ] {
        let error = ids(words).unwrap_err();
        assert!(error.contains(expected), "{error}, and not {expected}");
    }
    let event = class.event(&[60, 2, 7]).unwrap();
    assert_eq!((event.0.name.as_str(), event.1), ("TooWarm", &[7][..]));
    assert_eq!(event.0.condition, Condition::GreaterThan);
    assert_eq!(
        event.0.target,
        [Step::Member(1), Step::AnyRow, Step::Member(3)]
    );
    assert!(class.event(&[60, 9]).is_none() && class.event(&[61, 1]).is_none());
}

#[test]
fn a_path_that_a_class_does_not_have_has_its_code() {
    let class = thermometer();
    for (ids, expected) in [
        (&[9][..], "there is no component 9 in AcmeThermometer"),
        (&[2, 1], "there is no component 1 in AcmeThermometer.Limit"),
        (
            &[1, 4, 9],
            "there is no component 9 in AcmeThermometer.Sensors.4",
        ),
    ] {
        let error = class.component(ids).unwrap_err();
        assert_eq!(
            (error.code, error.to_string().as_str()),
            (ResultCode::InvalidPath, expected)
        );
    }
    let row = class.component(&[1, 4]).unwrap();
    assert!(row.row_of.is_some() && class.component(&[1]).unwrap().row_of.is_none());
    let whole = class.component(&[]).unwrap();
    assert_eq!(whole.kind.members().len(), 5);
}

#[test]
fn a_key_selects_a_row_by_its_content() {
    let class = thermometer();
    let way = class
        .way(&["Sensors", "Mac=02:00:00:00:00:01", "Celsius"])
        .unwrap();
    let mac = [2, 0, 0, 0, 0, 1];
    let key = Selector::Key {
        id: 1,
        values: mac.to_vec(),
    };
    let (selector, below) = way.rows.clone().unwrap();
    assert_eq!(
        (&way.ids[..], &selector, &below.ids[..]),
        (&[1][..], &key, &[3][..])
    );
    let path = way.path_data(Content::Empty).unwrap();
    assert_eq!((path.ids(), path.selector()), (&[1][..], Some(&key)));
    assert!(matches!(path.content(), Content::Nested(paths) if paths[0].ids() == [3]));
    // The only field of a key needs no name; several fields may be in any order.
    let alone = class.way(&["Sensors", "02:00:00:00:00:01"]).unwrap();
    assert_eq!(alone.rows.unwrap().0, key);
    let range = class.way(&["Sensors", "2-7"]).unwrap();
    let rows = Selector::Range { first: 2, last: 7 };
    assert_eq!(range.rows.unwrap().0, rows);
    assert!(class.way(&["Sensors", "2-7", "Celsius"]).is_err());
    let both = class.way(&["Sensors", "Place=hall,Vlan=7"]).unwrap();
    let Some((Selector::Key { id: 2, values }, _)) = both.rows else {
        panic!("the second key");
    };
    let sensors = class.component(&[1]).unwrap();
    let array = sensors.kind.array().unwrap();
    assert_eq!(
        key_values(array, 2, &values),
        Ok(vec![Value::Whole(7), "hall".into()])
    );
}

#[test]
fn components_of_others_are_got_and_set() {
    let class = thermometer();
    let target = class.component(&[1]).unwrap();
    let sensor = members(&[
        ("Mac", "02:00:00:00:00:01".into()),
        ("Vlan", 7_u64.into()),
        ("Celsius", (-5_i64).into()),
    ]);
    let rows = Value::List(vec![sensor]);
    let content = encode(&target.kind, &rows).unwrap();
    assert!(matches!(content, Content::Sparse(_)), "`Place` is absent");
    assert_eq!(decode(&target.kind, &content), Ok(rows));
    let limit = class.component(&[2]).unwrap();
    let error = encode(&limit.kind, &Value::Negative(-300))
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "the value is -300, but must be one of Absolute-Zero, or an integer from -273 to 1000"
    );
    assert_eq!(
        decode(&limit.kind, &Content::Full(vec![0xfe, 0xef])),
        Ok("Absolute-Zero".into())
    );
}

/// A library with one class, which has these components.
fn library(id: u32, name: &str, components: &str) -> String {
    format!(
        r#"<LFBLibrary xmlns="urn:ietf:params:xml:ns:forces:lfbmodel:1.1" provides="L">
<LFBClassDefs>
<LFBClassDef LFBClassID="{id}"><name>{name}</name><synopsis/><version>1.0</version><components>
{components}</components></LFBClassDef></LFBClassDefs></LFBLibrary>"#
    )
}

fn component(id: u32, name: &str, ty: &str) -> String {
    format!(r#"<component componentID="{id}"><name>{name}</name><synopsis/>{ty}</component>"#)
}

#[test]
fn contradictions_are_errors_with_their_line() {
    let error = |text: &str| registry().load(text).unwrap_err().to_string();
    let number = |id, name| component(id, name, "<typeRef>uint32</typeRef>");
    for (text, expected) in [
        (
            library(3, "EtherPHYCop", &number(2, "AdminStatus")),
            "line 3: the class EtherPHYCop (3) differs from EtherPHYCop, the known class with this ID, in its component AdminStatus (2)",
        ),
        (
            library(3, "Ext-Other", &number(1, "A")),
            "line 3: the class Ext-Other (3) differs from EtherPHYCop, the known class with this ID, in its name",
        ),
        (
            library(77, "EtherPHYCop", &number(1, "A")),
            "line 3: the class EtherPHYCop has the ID 77, but a known class of this name has 3",
        ),
        (
            library(77, "A", &number(1, "A")).replace(
                "<version>1.0</version>",
                "<version>1.0</version><derivedFrom>A</derivedFrom>",
            ),
            "line 3: the type `A` contains itself",
        ),
        (
            library(77, "A", &component(1, "A", "<typeRef>byte[0]</typeRef>")),
            "line 4: the length of a type is `0`",
        ),
        (
            library(77, "A", &component(1, "A", "<typeRef>IEEEMAC</typeRef>")),
            "line 4: there is no type `IEEEMAC`",
        ),
    ] {
        let error = error(&text);
        assert!(error.starts_with(expected), "{error}, and not {expected}");
    }
    // A second declaration without a difference that a peer can see is not a contradiction.
    let mut registry = registry();
    let status = component(3, "OperStatus", "<typeRef>uchar</typeRef>");
    assert_eq!(
        registry.load(&library(3, "EtherPHYCop", &status)),
        Ok(vec![3])
    );
    assert_eq!(registry.find("EtherPHYCop").unwrap().components.len(), 10);
    assert!(registry.load(VENDOR).is_ok());
    // A library with an error adds nothing.
    let text = VENDOR.replace("<derivedFrom>EtherPHYCop", "<derivedFrom>Nothing");
    let mut empty = Registry::standard();
    assert!(empty.load(&text).is_err());
    assert!(empty.find("AcmeThermometer").is_err());
}

#[test]
fn a_later_version_of_a_class_counts() {
    let mut registry = registry();
    let later = library(
        3,
        "EtherPHYCop",
        &component(99, "New", "<typeRef>uint32</typeRef>"),
    );
    registry.load(&later.replace(">1.0<", ">1.10<")).unwrap();
    assert_eq!(registry.get(3).unwrap().way(&["New"]).unwrap().ids, [99]);
    registry
        .load(
            &later
                .replace(">1.0<", ">1.9<")
                .replace("New", "Old")
                .replace("99", "98"),
        )
        .unwrap();
    assert!(registry.get(3).unwrap().way(&["Old"]).is_err());
}

/// Nested types with ten members each: expanding them would exhaust any memory.
#[test]
fn a_library_cannot_ask_for_any_number_of_parts() {
    let mut types = String::new();
    for level in 0..15 {
        let next = if level == 14 {
            "uchar".into()
        } else {
            format!("T{}", level + 1)
        };
        let ty = format!("<typeRef>{next}</typeRef>");
        let all: String = (1..=10)
            .map(|id| component(id, &format!("M{id}"), &ty))
            .collect();
        types += &format!(
            "<dataTypeDef><name>T{level}</name><synopsis/><struct>{all}</struct></dataTypeDef>"
        );
    }
    let text = library(77, "A", &component(1, "A", "<typeRef>T0</typeRef>"));
    let text = text.replace(
        "<LFBClassDefs>",
        &format!("<dataTypeDefs>{types}</dataTypeDefs><LFBClassDefs>"),
    );
    let error = Registry::default().load(&text).unwrap_err().to_string();
    assert!(
        error.contains(&format!("more than {PARTS_MAX} components")),
        "{error}"
    );
    // A type cannot contain itself through an alias either: its values would have no layout.
    let text = text.replace("<typeRef>uchar</typeRef>", "<alias>T0</alias>");
    assert!(Registry::default().load(&text).is_err());
    let itself = "<dataTypeDef><name>S</name><synopsis/><struct><component componentID=\"1\"><name>s</name><synopsis/><alias>S</alias></component></struct></dataTypeDef>";
    let text = library(77, "A", &component(1, "A", "<typeRef>S</typeRef>"));
    let text = text.replace(
        "<LFBClassDefs>",
        &format!("<dataTypeDefs>{itself}</dataTypeDefs><LFBClassDefs>"),
    );
    let error = Registry::default().load(&text).unwrap_err().to_string();
    assert!(error.contains("the type `S` contains itself"), "{error}");
}

#[test]
fn rows_of_ours_are_instances_or_one_table() {
    const TABLE: weir_model::Class = weir_model::Class {
        name: "chains",
        id: 0x00F7_0FFF,
        key: &["name"],
        components: &[
            weir_model::Component::new(1, "hook", weir_model::class::Type::Text, ""),
            weir_model::Component::new(2, "name", weir_model::class::Type::Text, ""),
        ],
        events: &[Event {
            id: 1,
            name: "appeared",
            about: "",
            target: "",
            condition: Condition::Created,
            reports: &["name"],
        }],
        ..weir_model::Class::PLAIN
    };
    let table = Class::of(&TABLE);
    let rows = table.component(&[1]).unwrap();
    let array = rows.kind.array().unwrap();
    assert_eq!(
        (array.keys[0].id, &array.keys[0].fields),
        (1, &vec![vec![2]])
    );
    assert_eq!(table.way(&["rows", "3", "hook"]).unwrap().ids, [1, 3, 1]);
    assert_eq!(table.events[0].target, [Step::Member(1), Step::AnyRow]);
    let reports = [[Step::Member(1), Step::AnyRow, Step::Member(2)]];
    assert_eq!(table.events[0].reports, reports);
    let instances = Class::of(&weir_model::Class {
        has_instances: true,
        ..TABLE
    });
    assert_eq!(instances.way(&["hook"]).unwrap().ids, [1]);
    assert_eq!(instances.events[0].reports, [[Step::Member(2)]]);
}
