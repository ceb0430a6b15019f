//! Reads types from XML.

use super::element::{DOC, Element, Often};
use super::{
    Access, Array, Atomic, Basic, Component, Fault, Key, MetadataDef, NESTING_MAX, Size, Special,
    Struct, Type, TypeDef, TypeRef, XmlError,
};

/// The elements that declare a type; a declaration has exactly one of these elements.
const TYPES: [(&str, Often); 6] = [
    ("typeRef", Often::AtMostOnce),
    ("atomic", Often::AtMostOnce),
    ("array", Often::AtMostOnce),
    ("struct", Often::AtMostOnce),
    ("union", Often::AtMostOnce),
    ("alias", Often::AtMostOnce),
];

pub(super) fn read_def(def: Element<'_>) -> Result<TypeDef, XmlError> {
    let default = [("defaultValue", Often::AtMostOnce)];
    def.expect(&[&DOC[..], &TYPES, &default].concat())?;
    Ok(TypeDef {
        doc: def.doc()?,
        ty: read_type(&def, NESTING_MAX)?,
    })
}

pub(super) fn read_metadata(def: Element<'_>) -> Result<MetadataDef, XmlError> {
    def.expect(&[&DOC[..], &TYPES, &[("metadataID", Often::Once)]].concat())?;
    let id = def.need("metadataID")?;
    Ok(MetadataDef {
        doc: def.doc()?,
        id: id.number("the ID of a metadatum", &id.text())?,
        ty: read_type(&def, NESTING_MAX)?,
    })
}

/// Reads a component, a capability, or a member of a struct.
pub(super) fn read_component(component: Element<'_>, levels: usize) -> Result<Component, XmlError> {
    let more = [
        ("optional", Often::AtMostOnce),
        ("defaultValue", Often::AtMostOnce),
    ];
    component.expect(&[&DOC[..], &TYPES, &more].concat())?;
    Ok(Component {
        id: component.id("componentID")?,
        doc: component.doc()?,
        access: read_access(&component)?,
        optional: component.child("optional").is_some(),
        ty: read_type(&component, levels)?,
        default: component.optional_text("defaultValue"),
    })
}

fn read_access(component: &Element<'_>) -> Result<Option<Access>, XmlError> {
    let Some(access) = component.attribute("access") else {
        return Ok(None);
    };
    Ok(Some(match access.as_str() {
        "read-only" => Access::ReadOnly,
        "read-write" => Access::ReadWrite,
        "write-only" => Access::WriteOnly,
        "read-reset" => Access::ReadReset,
        "trigger-only" => Access::TriggerOnly,
        _ => {
            let permitted = "read-only, read-write, write-only, read-reset or trigger-only";
            return Err(component.value("access", &access, permitted));
        }
    }))
}

/// Reads the only type within a declaration, with at most `levels` nested levels.
fn read_type(within: &Element<'_>, levels: usize) -> Result<Type, XmlError> {
    let is_type = |e: &Element<'_>| TYPES.iter().any(|(name, _)| *name == e.name());
    let mut types = within.children().filter(is_type);
    let Some(ty) = types.next() else {
        return Err(within.missing("type: typeRef, atomic, array, struct, union or alias"));
    };
    if let Some(second) = types.next() {
        return Err(second.error(Fault::Twice {
            within: within.name().into(),
            what: "type",
        }));
    }
    if levels == 0 {
        return Err(ty.error(Fault::Nesting));
    }
    Ok(match ty.name() {
        "typeRef" => Type::Ref(read_ref(&ty)?),
        "atomic" => Type::Atomic(read_atomic(&ty)?),
        "array" => Type::Array(Box::new(read_array(&ty, levels - 1)?)),
        "struct" => Type::Struct(read_struct(&ty, levels - 1)?),
        "union" => Type::Union(read_struct(&ty, levels - 1)?),
        // The schema requires the bare name; some authors put a `typeRef` element around it, as elsewhere.
        _ => match ty.child("typeRef") {
            Some(named) => {
                ty.expect(&[("typeRef", Often::Once)])?;
                Type::Alias(read_ref(&named)?)
            }
            None => Type::Alias(read_ref(&ty)?),
        },
    })
}

fn read_ref(element: &Element<'_>) -> Result<TypeRef, XmlError> {
    element.expect(&[])?;
    let text = element.text();
    let (name, len) = match text.split_once('[') {
        Some((name, rest)) => {
            let digits = rest.strip_suffix(']').unwrap_or("");
            (
                name.trim(),
                Some(element.number("the length of a type", digits.trim())?),
            )
        }
        None => (text.as_str(), None),
    };
    Ok(TypeRef::Basic(match (name, len) {
        ("string", max) => Basic::Text(max),
        ("octetstring", max) => Basic::Octets(max),
        ("byte", Some(len)) => Basic::Bytes(len),
        ("byte", None) | (_, Some(_)) | ("", _) => {
            let permitted = "the name of a type, byte[N], string, string[N] or octetstring[N]";
            return Err(element.value("a type", &text, permitted));
        }
        ("char", _) => Basic::Char,
        ("uchar", _) => Basic::Uchar,
        ("int16", _) => Basic::Int16,
        ("uint16", _) => Basic::Uint16,
        ("int32", _) => Basic::Int32,
        ("uint32", _) => Basic::Uint32,
        ("int64", _) => Basic::Int64,
        ("uint64", _) => Basic::Uint64,
        ("boolean", _) => Basic::Boolean,
        ("float32", _) => Basic::Float32,
        ("float64", _) => Basic::Float64,
        (name, None) => return Ok(TypeRef::Named(name.into())),
    }))
}

fn read_atomic(atomic: &Element<'_>) -> Result<Atomic, XmlError> {
    atomic.expect(&[
        ("baseType", Often::Once),
        ("rangeRestriction", Often::AtMostOnce),
        ("specialValues", Often::AtMostOnce),
    ])?;
    let number = |element: &Element<'_>, name: &'static str| {
        let text = element.need_attribute(name)?;
        let number = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).map(i128::from),
            None => text.parse::<i128>(),
        };
        number.map_err(|_| element.value(name, &text, "an integer"))
    };
    Ok(Atomic {
        base: read_ref(&atomic.need("baseType")?)?,
        ranges: atomic.each_within("rangeRestriction", "allowedRange", |range| {
            let (least, most) = (number(&range, "min")?, number(&range, "max")?);
            if least <= most {
                Ok((least, most))
            } else {
                Err(range.value("max", &most.to_string(), "at least min"))
            }
        })?,
        special: atomic.each_within("specialValues", "specialValue", |special| {
            special.expect(&DOC)?;
            // The value of a boolean may be a word.
            let value = match special.attribute("value").as_deref() {
                Some("false") => 0,
                Some("true") => 1,
                _ => number(&special, "value")?,
            };
            Ok(Special {
                value,
                doc: special.doc()?,
            })
        })?,
    })
}

fn read_array(array: &Element<'_>, levels: usize) -> Result<Array, XmlError> {
    array.expect(&[&TYPES[..], &[("contentKey", Often::Any)]].concat())?;
    let len = |name: &'static str| match array.attribute(name) {
        Some(text) => array.number(name, &text).map(Some),
        None => Ok(None),
    };
    let size = match array.attribute("type").as_deref() {
        Some("fixed-size") => Size::Fixed(len("length")?.ok_or_else(|| array.missing("length"))?),
        None | Some("variable-size") => Size::Variable(len("maxLength")?),
        Some(other) => {
            return Err(array.value("the type of an array", other, "fixed-size or variable-size"));
        }
    };
    Ok(Array {
        size,
        element: read_type(array, levels)?,
        keys: array.each("contentKey", |key| read_key(&key))?,
    })
}

fn read_key(key: &Element<'_>) -> Result<Key, XmlError> {
    key.expect(&[("contentKeyField", Often::Any)])?;
    let fields = key.each("contentKeyField", |field| {
        let text = field.text();
        Ok(match text.as_str() {
            "*" => Vec::new(),
            names => names.split('.').map(|name| name.trim().into()).collect(),
        })
    })?;
    if fields.is_empty() {
        return Err(key.missing("contentKeyField"));
    }
    Ok(Key {
        id: key.id("contentKeyID")?,
        fields,
        line: key.line(),
    })
}

fn read_struct(element: &Element<'_>, levels: usize) -> Result<Struct, XmlError> {
    element.expect(&[
        ("derivedFrom", Often::AtMostOnce),
        ("component", Often::Any),
    ])?;
    let members = element.each("component", |member| read_component(member, levels))?;
    let derived_from = element.optional_text("derivedFrom");
    if members.is_empty() && derived_from.is_none() {
        return Err(element.missing("component"));
    }
    Ok(Struct {
        derived_from,
        members,
    })
}
