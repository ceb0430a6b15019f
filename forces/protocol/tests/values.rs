//! Values on the wire: the examples of RFC 5810, appendices C and D, encoded by hand, and properties of all values.

use proptest::prelude::*;
use weir_model::Value;
use weir_protocol::schema::{
    Access, Array, Class, Component, Integer, Key, Kind, Named, Number, Size,
};
use weir_protocol::value::{
    self, ValueError, check, decode, decode_members, encode, encode_members, find_row, key_bytes,
    key_values, parse,
};
use weir_protocol::wire::{Content, Ilv, ResultCode};

fn component(id: u32, name: &str, kind: Kind) -> Component {
    Component {
        id,
        name: name.to_owned(),
        about: String::new(),
        access: Access::ReadWrite,
        is_capability: false,
        optional: false,
        kind,
        default: None,
    }
}

fn optional(id: u32, name: &str, kind: Kind) -> Component {
    Component {
        optional: true,
        ..component(id, name, kind)
    }
}

fn number(base: Integer) -> Kind {
    Kind::Number(base.into())
}

fn table(element: Kind, keys: &[&[u32]]) -> Kind {
    let key = |(id, fields): (u32, &&[u32])| Key {
        id,
        fields: fields.iter().map(|field| vec![*field]).collect(),
    };
    Kind::Array(Box::new(Array {
        size: Size::Variable(None),
        element,
        keys: (1..).zip(keys).map(key).collect(),
    }))
}

fn members(members: &[(&'static str, Value)]) -> Value {
    Value::Struct(
        members
            .iter()
            .map(|(name, value)| ((*name).into(), value.clone()))
            .collect(),
    )
}

fn full(octets: &[u8]) -> Content {
    Content::Full(octets.to_vec())
}

fn sparse(parts: &[(u32, &[u8])]) -> Content {
    let part = |(id, value): &(u32, &[u8])| Ilv {
        id: *id,
        value: value.to_vec(),
    };
    Content::Sparse(parts.iter().map(part).collect())
}

/// Checks encoding and decoding.
#[track_caller]
fn same(kind: &Kind, value: &Value, content: &Content) {
    assert_eq!(encode(kind, value).as_ref(), Ok(content));
    assert_eq!(decode(kind, content).as_ref(), Ok(value));
}

/// `struct U { uint16 a, string b (optional), uint16 c (optional) }` of appendix C.
fn struct_u() -> Kind {
    Kind::Struct(vec![
        component(1, "a", number(Integer::Uint16)),
        optional(2, "b", Kind::Text(None)),
        optional(3, "c", number(Integer::Uint16)),
    ])
}

#[test]
fn appendix_c_1_fixed_members_are_packed_and_some_of_them_are_sparse() {
    let number = || number(Integer::Uint16);
    let s = Kind::Struct(vec![
        component(1, "a", number()),
        component(2, "b", number()),
        component(3, "c", number()),
    ]);
    let (a, b, c) = (
        ("a", 1_u64.into()),
        ("b", 2_u64.into()),
        ("c", 3_u64.into()),
    );
    same(
        &s,
        &members(&[a.clone(), b, c.clone()]),
        &full(&[0, 1, 0, 2, 0, 3]),
    );
    same(
        &s,
        &members(&[a, c]),
        &sparse(&[(1, &[0, 1]), (3, &[0, 3])]),
    );
}

#[test]
fn appendix_c_3_text_has_a_fulldata_of_its_own() {
    let aligned = Kind::Struct(vec![
        component(1, "a", number(Integer::Uint32)),
        component(2, "b", Kind::Text(None)),
        component(3, "c", number(Integer::Uint16)),
    ]);
    let value = members(&[
        ("a", 1_u64.into()),
        ("b", "hello".into()),
        ("c", 7_u64.into()),
    ]);
    let octets = [
        0, 0, 0, 1, 0x01, 0x12, 0, 9, b'h', b'e', b'l', b'l', b'o', 0, 0, 0, 0, 7,
    ];
    same(&aligned, &value, &full(&octets));
    // In the example, two octets precede the text: receivers disagree about its alignment, so we send SPARSEDATA.
    let parts = sparse(&[(1, &[0, 1]), (2, b"hello"), (3, &[0, 7])]);
    same(&struct_u(), &value, &parts);
    let unaligned = [&[0, 1, 0x01, 0x12, 0, 9][..], b"hello\0\0\0", &[0, 7]].concat();
    assert_eq!(decode(&struct_u(), &full(&unaligned)), Ok(value));
}

#[test]
fn appendix_c_4_parts_of_parts() {
    let v = Kind::Struct(vec![
        component(1, "x", number(Integer::Uint32)),
        component(2, "y", number(Integer::Uint32)),
        component(3, "z", table(struct_u(), &[])),
    ]);
    let value = members(&[
        ("x", 5_u64.into()),
        ("y", 6_u64.into()),
        (
            "z",
            members(&[
                ("10", members(&[("a", 1_u64.into()), ("b", "hi".into())])),
                ("15", members(&[("a", 2_u64.into()), ("c", 3_u64.into())])),
            ]),
        ),
    ]);
    let z = [
        0, 0, 0, 10, 0, 0, 0, 32, // row 10
        0, 0, 0, 1, 0, 0, 0, 10, 0, 1, 0, 0, // a
        0, 0, 0, 2, 0, 0, 0, 10, b'h', b'i', 0, 0, // b
        0, 0, 0, 15, 0, 0, 0, 32, // row 15
        0, 0, 0, 1, 0, 0, 0, 10, 0, 2, 0, 0, // a
        0, 0, 0, 3, 0, 0, 0, 10, 0, 3, 0, 0, // c
    ];
    let parts = sparse(&[(1, &[0, 0, 0, 5]), (2, &[0, 0, 0, 6]), (3, &z)]);
    same(&v, &value, &parts);
}

/// `table2` of appendix D: rows of j1 and j2, which form the key.
fn table2() -> Kind {
    let row = Kind::Struct(vec![
        component(1, "j1", number(Integer::Uint32)),
        component(2, "j2", number(Integer::Uint32)),
    ]);
    table(row, &[&[1, 2]])
}

fn row2(j1: u64, j2: u64) -> Value {
    members(&[("j1", j1.into()), ("j2", j2.into())])
}

#[test]
fn appendix_d_3_to_6_a_table_has_indices_and_a_row_has_none() {
    let octets = [
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4,
    ];
    let two = Value::List(vec![row2(1, 2), row2(3, 4)]);
    same(&table2(), &two, &full(&octets));
    let row = &table2().array().unwrap().element.clone();
    same(row, &row2(1, 2), &full(&[0, 0, 0, 1, 0, 0, 0, 2]));
    let seventh = members(&[("7", row2(1, 2))]);
    let octets = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2];
    same(&table2(), &seventh, &full(&octets));
    same(&table2(), &Value::List(vec![]), &full(&[]));
    // Rows may be in any order, and in another FULLDATA.
    let wrapped = [&[0x01, 0x12, 0, 16][..], &octets].concat();
    assert_eq!(decode(&table2(), &full(&wrapped)), Ok(seventh));
}

#[test]
fn appendix_d_9_rows_with_text_wrap_it() {
    let row = Kind::Struct(vec![
        component(1, "someid", number(Integer::Uint32)),
        component(2, "name", Kind::Text(None)),
    ]);
    let value = Value::List(vec![members(&[
        ("someid", 4_u64.into()),
        ("name", "x".into()),
    ])]);
    let octets = [0, 0, 0, 0, 0, 0, 0, 4, 0x01, 0x12, 0, 5, b'x', 0, 0, 0];
    same(&table(row.clone(), &[]), &value, &full(&octets));
    // The padding of the last row may be missing, or may be counted.
    for more in [
        &octets[..13],
        &[&octets[..11], &[8, b'x', 0, 0, 0][..]].concat(),
    ] {
        let read = decode(&table(row.clone(), &[]), &full(more)).unwrap();
        assert_eq!(
            read.rows()[0].text("name").map(|name| &name[..1]),
            Some("x")
        );
    }
}

#[test]
fn appendix_d_11_a_key_of_two_fields() {
    let kind = table2();
    let array = kind.array().unwrap();
    let wanted = [Value::Whole(100), Value::Whole(200)];
    let octets = [0, 0, 0, 100, 0, 0, 0, 200];
    assert_eq!(key_bytes(array, 1, &wanted).as_deref(), Ok(&octets[..]));
    assert_eq!(key_values(array, 1, &octets).as_deref(), Ok(&wanted[..]));
    let rows = Value::List(vec![row2(1, 2), row2(100, 200)]);
    assert_eq!(find_row(array, &rows, 1, &wanted), Some(1));
    let far = members(&[("3", row2(1, 2)), ("9", row2(100, 200))]);
    assert_eq!(find_row(array, &far, 1, &wanted), Some(9));
    assert_eq!(find_row(array, &rows, 1, &wanted[..1]), None);
    let code = |result: Result<Vec<u8>, ValueError>| result.unwrap_err().code;
    assert_eq!(code(key_bytes(array, 2, &wanted)), ResultCode::InvalidPath);
    assert_eq!(
        code(key_bytes(array, 1, &wanted[..1])),
        ResultCode::InvalidParameters
    );
    assert_eq!(
        key_values(array, 1, &octets[..7]).unwrap_err().code,
        ResultCode::LengthMismatch
    );
}

#[test]
fn a_key_of_one_text_is_read_with_and_without_a_fulldata() {
    let row = Kind::Struct(vec![component(1, "name", Kind::Text(None))]);
    let kind = table(row, &[&[1]]);
    let array = kind.array().unwrap();
    let wan = [Value::from("wan")];
    assert_eq!(key_bytes(array, 1, &wan).as_deref(), Ok(&b"wan"[..]));
    assert_eq!(key_values(array, 1, b"wan").as_deref(), Ok(&wan[..]));
    let wrapped = [&[0x01, 0x12, 0, 7][..], b"wan\0"].concat();
    assert_eq!(key_values(array, 1, &wrapped).as_deref(), Ok(&wan[..]));
}

/// A captured row of an IPv4 next hop: one octet precedes an unaligned number.
#[test]
fn members_are_packed_as_captured() {
    let row = Kind::Struct(vec![
        component(1, "flag", number(Integer::Uint8)),
        component(2, "address", Kind::Bytes(4)),
        component(3, "port", number(Integer::Uint32)),
    ]);
    let value = members(&[
        ("flag", 1_u64.into()),
        ("address", "0a:00:00:01".into()),
        ("port", 9_u64.into()),
    ]);
    same(&row, &value, &full(&[1, 10, 0, 0, 1, 0, 0, 0, 9]));
}

#[test]
fn values_by_names_are_rows_with_a_key() {
    let row = Kind::Struct(vec![
        component(1, "name", Kind::Text(None)),
        component(2, "value", number(Integer::Uint32)),
    ]);
    let map = table(row, &[&[1]]);
    let value = members(&[("limit", 7_u64.into()), ("3", 8_u64.into())]);
    let octets = [
        &[0, 0, 0, 0, 0x01, 0x12, 0, 9][..],
        b"limit\0\0\0",
        &[0, 0, 0, 7, 0, 0, 0, 1, 0x01, 0x12, 0, 5],
        b"3\0\0\0",
        &[0, 0, 0, 8],
    ];
    same(&map, &value, &full(&octets.concat()));
    let array = map.array().unwrap();
    assert_eq!(find_row(array, &value, 1, &["3".into()]), Some(1));
}

#[test]
fn a_union_says_which_member_it_has() {
    let union = Kind::Union(vec![
        component(1, "text", Kind::Text(Some(16))),
        component(2, "raw", Kind::Bytes(6)),
    ]);
    let value = members(&[("text", "x".into())]);
    same(&union, &value, &sparse(&[(1, b"x")]));
    assert_eq!(
        decode(&union, &full(b"x")).unwrap_err().code,
        ResultCode::InvalidTlv
    );
    let both = sparse(&[(1, b"x"), (2, &[0; 6])]);
    assert_eq!(
        decode(&union, &both).unwrap_err().code,
        ResultCode::InvalidParameters
    );
}

#[test]
fn signed_numbers_names_and_ranges() {
    for (base, octets, value) in [
        (Integer::Int8, &[0xff][..], -1),
        (Integer::Int16, &[0x80, 0], -32768),
        (Integer::Int32, &[0xff, 0xff, 0xff, 0xfe], -2),
        (Integer::Int64, &[0x80, 0, 0, 0, 0, 0, 0, 0], i64::MIN),
        (Integer::Int64, &[0, 0, 0, 0, 0, 0, 0, 5], 5),
    ] {
        same(&number(base), &value.into(), &full(octets));
    }
    same(
        &number(Integer::Uint64),
        &u64::MAX.into(),
        &full(&[0xff; 8]),
    );
    let state = Kind::Number(Number {
        base: Integer::Uint8,
        ranges: vec![(0, 2), (255, 255)],
        names: vec![Named::new(0, "down"), Named::new(2, "up")],
    });
    same(&state, &"up".into(), &full(&[2]));
    same(&state, &Value::Whole(1), &full(&[1]));
    assert_eq!(encode(&state, &Value::Whole(2)), Ok(full(&[2])));
    assert_eq!(encode(&state, &"0xff".into()), Ok(full(&[255])));
    let error = encode(&state, &"upp".into()).unwrap_err();
    assert_eq!(error.code, ResultCode::ValueOutOfRange);
    assert_eq!(
        error.to_string(),
        "the value is \"upp\", but must be one of down, up, or an integer from 0 to 2 or 255"
    );
    // A value reported by another FE is shown even if its library does not permit it; it is not accepted in a write.
    assert_eq!(decode(&state, &full(&[9])), Ok(Value::Whole(9)));
    assert_eq!(
        check(&state, &Value::Whole(9)).unwrap_err().code,
        ResultCode::ValueOutOfRange
    );
    assert!(encode(&number(Integer::Uint8), &Value::Whole(256)).is_err());
    assert!(encode(&number(Integer::Uint32), &Value::Negative(-1)).is_err());
}

#[test]
fn what_an_operator_types() {
    let typed = |kind: Kind, text: &str| parse(&kind, text).map_err(|e| e.to_string());
    let address = Ok(Value::from("0a:00:00:01"));
    for text in ["10.0.0.1", "0a:00:00:01", "0A000001", "0x0a000001"] {
        assert_eq!(typed(Kind::Bytes(4), text), address, "{text}");
    }
    let v6 = typed(Kind::Bytes(16), "2001:db8::1");
    assert_eq!(
        v6,
        Ok("20:01:0d:b8:00:00:00:00:00:00:00:00:00:00:00:01".into())
    );
    assert_eq!(typed(Kind::Octets(None), ""), Ok("".into()));
    assert_eq!(typed(number(Integer::Int16), "-7"), Ok(Value::Negative(-7)));
    assert_eq!(
        typed(number(Integer::Uint32), "0xff"),
        Ok(Value::Whole(255))
    );
    assert_eq!(typed(Kind::Flag, "true"), Ok(Value::Flag(true)));
    assert_eq!(typed(Kind::Real64, "0.5"), Ok(Value::Real(0.5)));
    for (kind, text, expected) in [
        (Kind::Bytes(4), "10.0.0", "octets in hexadecimal"),
        (
            Kind::Bytes(4),
            "0a:00",
            "but must be 4 octets, like 00:01:02:03",
        ),
        (Kind::Bytes(4), "öö", "octets in hexadecimal"),
        (
            Kind::Flag,
            "yes",
            "the value is \"yes\", but must be true or false",
        ),
        (Kind::Real64, "fast", "but must be a number"),
        (
            Kind::Text(Some(3)),
            "long",
            "has 4 octets, but may have at most 3",
        ),
        (
            struct_u(),
            "x",
            "a structure is set by its members: a, b, c",
        ),
        (number(Integer::Int8), "128", "from -128 to 127"),
    ] {
        let error = typed(kind, text).unwrap_err();
        assert!(error.contains(expected), "{error}, and not {expected}");
    }
}

#[test]
fn errors_name_the_place_and_have_a_code() {
    let kind = Kind::Struct(vec![component(1, "rows", table(struct_u(), &[]))]);
    let row = members(&[("a", 1_u64.into()), ("d", 1_u64.into())]);
    let error = encode(&kind, &members(&[("rows", Value::List(vec![row]))])).unwrap_err();
    assert_eq!(error.code, ResultCode::InvalidPath);
    assert_eq!(error.at, ["rows", "0"]);
    assert!(
        error
            .to_string()
            .starts_with("rows.0: there is no member `d`"),
        "{error}"
    );
    let twice = sparse(&[(1, &[0, 1]), (1, &[0, 1])]);
    let code = |kind: &Kind, content: &Content| decode(kind, content).unwrap_err().code;
    assert_eq!(code(&struct_u(), &twice), ResultCode::InvalidParameters);
    assert_eq!(
        code(&struct_u(), &sparse(&[(9, &[0, 1])])),
        ResultCode::InvalidPath
    );
    assert_eq!(code(&struct_u(), &full(&[0])), ResultCode::LengthMismatch);
    assert_eq!(
        code(&number(Integer::Uint8), &full(&[1, 0, 0, 0, 0])),
        ResultCode::LengthMismatch
    );
    assert_eq!(
        code(&number(Integer::Uint8), &full(&[1, 2])),
        ResultCode::LengthMismatch
    );
    assert_eq!(
        decode(&number(Integer::Uint8), &full(&[1, 0, 0, 0])),
        Ok(Value::Whole(1))
    );
    assert_eq!(code(&Kind::Flag, &full(&[2])), ResultCode::ValueOutOfRange);
    assert_eq!(
        code(&Kind::Text(None), &full(&[0xff])),
        ResultCode::InvalidParameters
    );
    assert_eq!(
        code(&Kind::Text(Some(1)), &full(b"ab")),
        ResultCode::ContentsTooLong
    );
    assert_eq!(code(&Kind::Flag, &Content::Empty), ResultCode::InvalidTlv);
    let twice = [0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 1];
    assert_eq!(
        code(&table(number(Integer::Uint16), &[]), &full(&twice)),
        ResultCode::InvalidParameters
    );
}

#[test]
fn what_an_event_reports_is_one_struct() {
    let all = [
        component(13, "last", number(Integer::Uint32)),
        optional(7, "text", Kind::Text(None)),
    ];
    let value = members(&[("last", 9_u64.into())]);
    let content = encode_members(&all, &value).unwrap();
    assert_eq!(content, sparse(&[(13, &[0, 0, 0, 9])]));
    assert_eq!(decode_members(&all, &content), Ok(value.clone()));
    let content = encode_members(&all[..1], &value).unwrap();
    assert_eq!(content, full(&[0, 0, 0, 9]));
    assert_eq!(decode_members(&all[..1], &content), Ok(value));
}

/// A layout of any depth up to four.
fn any_kind() -> impl Strategy<Value = Kind> {
    let integer = prop::sample::select(vec![
        Integer::Int8,
        Integer::Uint8,
        Integer::Int16,
        Integer::Uint16,
        Integer::Int32,
        Integer::Uint32,
        Integer::Int64,
        Integer::Uint64,
    ]);
    let single = prop_oneof![
        integer.prop_map(number),
        Just(Kind::Flag),
        Just(Kind::Real32),
        Just(Kind::Real64),
        (1_u32..9).prop_map(Kind::Bytes),
        Just(Kind::Text(None)),
        Just(Kind::Octets(Some(9))),
    ];
    single.prop_recursive(4, 24, 4, |within| {
        let some = prop::collection::vec((within.clone(), any::<bool>()), 1..5);
        let parts = some.prop_map(|kinds| -> Vec<Component> {
            let part = |(id, (kind, is_optional)): (u32, (Kind, bool))| Component {
                optional: is_optional,
                ..component(id, &format!("m{id}"), kind)
            };
            (1..).zip(kinds).map(part).collect()
        });
        let size = prop_oneof![
            Just(Size::Variable(None)),
            Just(Size::Variable(Some(4))),
            (1_u32..4).prop_map(Size::Fixed),
        ];
        let array = (within.clone(), size).prop_map(|(element, size)| {
            Kind::Array(Box::new(Array {
                size,
                element,
                keys: vec![],
            }))
        });
        let named = within.clone().prop_map(|value| {
            let members = vec![
                component(1, "name", Kind::Text(None)),
                component(2, "value", value),
            ];
            table(Kind::Struct(members), &[&[1]])
        });
        prop_oneof![
            parts.clone().prop_map(Kind::Struct),
            parts.prop_map(Kind::Union),
            array,
            named,
            within.prop_map(|kind| Kind::Alias(Box::new(kind))),
        ]
    })
}

/// A value of this layout, in the form that decoding returns.
fn value_of(kind: &Kind) -> BoxedStrategy<Value> {
    match kind.resolved().clone() {
        Kind::Number(number) => {
            let (least, most) = number.base.range();
            (least..=most).prop_map(move |n| number.value(n)).boxed()
        }
        Kind::Flag => any::<bool>().prop_map(Value::Flag).boxed(),
        Kind::Real32 => (-1e9_f32..1e9).prop_map(|x| Value::Real(x.into())).boxed(),
        Kind::Real64 => (-1e99_f64..1e99).prop_map(Value::Real).boxed(),
        Kind::Bytes(len) => octets(len as usize..len as usize + 1),
        Kind::Octets(_) => octets(0..10),
        Kind::Text(_) => "[a-zäß0-9]{0,9}".prop_map(Value::from).boxed(),
        Kind::Struct(members) => {
            let value = |member: &Component| {
                let name = member.name.clone();
                let (value, optional) = (value_of(&member.kind), member.optional);
                (value, any::<bool>()).prop_map(move |(value, absent)| {
                    (!(optional && absent)).then(|| (name.clone().into(), value))
                })
            };
            let values: Vec<_> = members.iter().map(value).collect();
            values
                .prop_map(|values| Value::Struct(values.into_iter().flatten().collect()))
                .boxed()
        }
        Kind::Union(members) => {
            let one = prop::sample::select(members);
            one.prop_flat_map(|member| {
                let name = member.name.clone();
                value_of(&member.kind)
                    .prop_map(move |value| Value::Struct(vec![(name.clone().into(), value)]))
            })
            .boxed()
        }
        Kind::Array(array) if array.is_map() => {
            let value = value_of(&array.element.members()[1].kind);
            let values = prop::collection::btree_map("[a-z0-9]{0,5}", value, 0..4);
            values
                .prop_map(|all| {
                    Value::Struct(all.into_iter().map(|(n, v)| (n.into(), v)).collect())
                })
                .boxed()
        }
        Kind::Array(array) => rows_of(&array),
        Kind::Alias(_) => unreachable!("resolved"),
    }
}

fn rows_of(array: &Array) -> BoxedStrategy<Value> {
    let row = value_of(&array.element);
    match array.size {
        Size::Fixed(count) => {
            let count = count as usize;
            prop::collection::vec(row, 0..=count)
                .prop_map(Value::List)
                .boxed()
        }
        Size::Variable(_) => {
            let dense = prop::collection::vec(row.clone(), 0..4).prop_map(Value::List);
            let gaps = prop::collection::btree_map(5_u32.., row, 1..4).prop_map(|rows| {
                Value::Struct(
                    rows.into_iter()
                        .map(|(n, row)| (n.to_string().into(), row))
                        .collect(),
                )
            });
            prop_oneof![dense, gaps].boxed()
        }
    }
}

fn octets(len: std::ops::Range<usize>) -> BoxedStrategy<Value> {
    let octets = prop::collection::vec(any::<u8>(), len);
    let text = octets.prop_map(|octets| {
        let pairs: Vec<_> = octets.iter().map(|octet| format!("{octet:02x}")).collect();
        pairs.join(":").into()
    });
    text.boxed()
}

fn kind_and_value() -> impl Strategy<Value = (Kind, Value)> {
    any_kind().prop_flat_map(|kind| {
        let value = value_of(&kind);
        (Just(kind), value)
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read((kind, value) in kind_and_value()) {
        let content = encode(&kind, &value).unwrap();
        prop_assert_eq!(decode(&kind, &content), Ok(value));
    }

    #[test]
    fn any_octets_are_a_value_or_an_error(
        kind in any_kind(), octets in prop::collection::vec(any::<u8>(), 0..64), small in any::<bool>(),
    ) {
        // Small numbers are more often lengths and indices.
        let octets: Vec<u8> = octets.iter().map(|octet| if small { octet % 13 } else { *octet }).collect();
        if let Ok(value) = decode(&kind, &Content::Full(octets.clone())) {
            drop(check(&kind, &value));
        }
        let parts = vec![Ilv { id: octets.len() as u32 % 4, value: octets }];
        drop(decode(&kind, &Content::Sparse(parts)));
    }

    #[test]
    fn a_changed_value_is_a_value_or_an_error(
        (kind, value) in kind_and_value(), at in any::<prop::sample::Index>(), bit in 0..8, cut in any::<bool>(),
    ) {
        if let Ok(Content::Full(mut octets)) = encode(&kind, &value) && !octets.is_empty() {
            let at = at.index(octets.len());
            octets[at] ^= 1_u8 << bit;
            if cut {
                octets.truncate(at);
            }
            drop(decode(&kind, &Content::Full(octets)));
        }
    }

    #[test]
    fn what_an_operator_reads_can_be_typed((kind, value) in kind_and_value()) {
        let text = match &value {
            Value::Text(text) => text.clone(),
            Value::Whole(number) => number.to_string(),
            Value::Negative(number) => number.to_string(),
            Value::Flag(on) => on.to_string(),
            Value::Real(number) => number.to_string(),
            _ => return Ok(()),
        };
        prop_assert_eq!(parse(&kind, &text), Ok(value));
    }
}

/// A false length must not allocate memory.
#[test]
fn a_length_that_lies_takes_no_memory() {
    let deep = (0..8).fold(Kind::Text(None), |kind, _| table(kind, &[]));
    let huge = Kind::Array(Box::new(Array {
        size: Size::Fixed(u32::MAX),
        element: number(Integer::Uint8),
        keys: vec![],
    }));
    let lies: &[&[u8]] = &[
        &[0, 0, 0, 0, 0x01, 0x12, 0xff, 0xff, 0, 0, 0, 0],
        &[0xff; 40],
        &[0, 0, 0, 0, 0x01, 0x12, 0, 0],
    ];
    for kind in [deep, huge] {
        for octets in lies {
            let taken = allocation_counter::measure(|| {
                assert!(decode(&kind, &full(octets)).is_err());
            });
            assert!(
                taken.bytes_max < 4096,
                "{} bytes for {octets:?}",
                taken.bytes_max
            );
        }
    }
}

#[test]
fn a_class_of_ours_is_encoded_as_it_is_declared() {
    let class = Class::of(&weir_model::capture::CLASS);
    assert_eq!(
        (class.name.as_str(), class.short_name()),
        ("Ext-capture", "capture")
    );
    let target = class.component(&[3]).unwrap();
    assert_eq!(target.component.unwrap().default.as_deref(), Some("96"));
    assert_eq!(
        encode(&target.kind, &Value::Whole(1500)),
        Ok(full(&[0, 0, 0, 0, 0, 0, 5, 0xdc]))
    );
    assert!(value::check(&target.kind, &Value::Whole(0)).is_err());
}
