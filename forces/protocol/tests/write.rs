//! Generated libraries: reading them gives the same schemas, and their elements have the order and number that the
//! schemas of RFC 5812 and RFC 7408 require.

use roxmltree::Node;
use weir_model::class::Condition;
use weir_protocol::library;
use weir_protocol::schema::{Class, Kind, Registry, Size};

/// The permitted children of an element, in order: `?` at most one, `*` any number, `+` one or more, no suffix exactly
/// one; `type` is any of the type elements.
const ORDER: &[(&str, &str)] = &[
    (
        "LFBLibrary",
        "description? load* frameDefs? dataTypeDefs? metadataDefs? LFBClassDefs?",
    ),
    ("dataTypeDefs", "dataTypeDef+"),
    ("dataTypeDef", "name synopsis description? type"),
    ("atomic", "baseType rangeRestriction? specialValues?"),
    ("rangeRestriction", "allowedRange+"),
    ("specialValues", "specialValue+"),
    ("specialValue", "name synopsis"),
    ("array", "type contentKey*"),
    ("contentKey", "contentKeyField+"),
    ("struct", "derivedFrom? component+"),
    ("union", "derivedFrom? component+"),
    ("LFBClassDefs", "LFBClassDef+"),
    (
        "LFBClassDef",
        "name synopsis version derivedFrom? inputPorts? outputPorts? components? capabilities? events? description?",
    ),
    ("components", "component+"),
    ("capabilities", "capability+"),
    (
        "component",
        "name synopsis description? optional? type defaultValue?",
    ),
    ("capability", "name synopsis description? optional? type"),
    ("events", "event+"),
    (
        "event",
        "name synopsis eventTarget condition eventReports? description?",
    ),
    ("eventTarget", "part+"),
    ("eventReports", "eventReport+"),
    ("eventReport", "part+"),
];

/// A group of alternative elements.
fn group(name: &str, is_within_type: bool) -> &str {
    match name {
        "typeRef" | "atomic" | "array" | "struct" | "union" | "alias" if is_within_type => "type",
        "eventField" | "eventSubscript" => "part",
        "eventCreated"
        | "eventDeleted"
        | "eventChanged"
        | "eventGreaterThan"
        | "eventLessThan"
        | "eventBecomesEqualTo" => "condition",
        other => other,
    }
}

/// Checks order and number of the children of every element.
fn check_order(node: Node<'_, '_>) {
    let name = node.tag_name().name();
    let children: Vec<_> = node.children().filter(Node::is_element).collect();
    let Some((_, order)) = ORDER.iter().find(|(known, _)| *known == name) else {
        assert!(children.is_empty(), "`{name}` has children");
        return;
    };
    let mut rest = children
        .iter()
        .map(|child| group(child.tag_name().name(), true))
        .peekable();
    for place in order.split(' ') {
        let wanted = place.trim_end_matches(['?', '*', '+']);
        let mut count = 0;
        while rest.next_if_eq(&wanted).is_some() {
            count += 1;
        }
        let fits = match place.strip_prefix(wanted) {
            Some("?") => count <= 1,
            Some("*") => true,
            Some("+") => count >= 1,
            _ => count == 1,
        };
        assert!(fits, "`{name}` has {count} of {wanted}");
    }
    assert_eq!(rest.next(), None, "in `{name}`");
    children.into_iter().for_each(check_order);
}

/// Checks that names are of the type NMTOKEN.
fn check_names(node: Node<'_, '_>) {
    for name in node
        .descendants()
        .filter(|node| node.tag_name().name() == "name")
    {
        let text = name.text().unwrap();
        let fits = |c: char| c.is_alphanumeric() || "-._:".contains(c);
        assert!(!text.is_empty() && text.chars().all(fits), "{text:?}");
    }
}

#[track_caller]
fn round_trip(classes: &[Class]) -> String {
    let text = library::write("Test", "A <test> & more.", classes);
    let document = roxmltree::Document::parse(&text).unwrap();
    check_order(document.root_element());
    check_names(document.root_element());
    let mut registry = Registry::default();
    registry.load(&text).unwrap();
    for class in classes {
        assert_eq!(registry.get(class.id), Some(class), "{text}");
    }
    text
}

#[test]
fn classes_of_the_standards_and_of_others_survive() {
    let mut registry = Registry::standard();
    let standard: Vec<_> = registry.all().cloned().collect();
    let text = round_trip(&standard);
    assert!(
        text.contains("lfbmodel:1.0"),
        "nothing in them needs RFC 7408"
    );
    registry.load(include_str!("vendor.xml")).unwrap();
    let vendor = registry.find("AcmeThermometer").unwrap().clone();
    let text = round_trip(&[vendor]);
    assert!(
        text.contains("lfbmodel:1.1"),
        "a member has an access of its own"
    );
    let example =
        include_str!("library.xml").replace("<load library=\"Base\" location=\"base.xml\"/>", "");
    let mut registry = Registry::default();
    let ids = registry.load(&example).unwrap();
    let classes: Vec<_> = ids
        .iter()
        .filter_map(|id| registry.get(*id).cloned())
        .collect();
    round_trip(&classes);
}

#[test]
fn every_condition_and_size_is_written() {
    let registry = Registry::standard();
    let mut class = registry.find("EtherPHYCop").unwrap().clone();
    for condition in [
        Condition::Created,
        Condition::Deleted,
        Condition::GreaterThan,
        Condition::LessThan,
        Condition::BecomesEqualTo,
    ] {
        class.events[0].condition = condition;
        let text = round_trip(std::slice::from_ref(&class));
        assert_eq!(
            text.contains("lfbmodel:1.1"),
            condition == Condition::BecomesEqualTo
        );
    }
    for size in [Size::Fixed(3), Size::Variable(Some(9))] {
        let mut class = registry.find("EtherPHYCop").unwrap().clone();
        for component in &mut class.components {
            if let Kind::Array(array) = &mut component.kind {
                array.size = size;
            }
        }
        round_trip(&[class]);
    }
}

#[test]
fn a_library_of_no_classes_is_one() {
    let text = library::write("Empty", "", &[]);
    assert_eq!(Registry::default().load(&text), Ok(vec![]));
}
