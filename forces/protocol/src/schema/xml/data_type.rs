//! Reads types from XML.

use super::element::{DOC, Element, Often};
use super::{DEPTH_MAX, Fault, NESTING_MAX, Reader, Scope, XmlError, add, unique};
use crate::schema::{Access, Array, Component, Integer, Key, Kind, Named, Number, PARTS_MAX, Size};

/// The elements that declare a type; a declaration has exactly one of these elements.
pub(super) const TYPES: [(&str, Often); 6] = [
    ("typeRef", Often::AtMostOnce),
    ("atomic", Often::AtMostOnce),
    ("array", Often::AtMostOnce),
    ("struct", Often::AtMostOnce),
    ("union", Often::AtMostOnce),
    ("alias", Often::AtMostOnce),
];

/// The numbers that IDs and lengths may be.
const NOT_ZERO: &str = "a number from 1 to 4294967295";

impl<'a> Reader<'a> {
    /// Checks the types and metadata of a library, as far as they have [`PARTS_MAX`] parts together; types that classes
    /// use are also checked there.
    pub(super) fn check_types(&mut self, root: &Element<'a>) -> Result<(), XmlError> {
        let metadata = root.each_within("metadataDefs", "metadataDef", |def| {
            def.expect(&[&DOC[..], &TYPES, &[("metadataID", Often::Once)]].concat())?;
            let id = def.need("metadataID")?;
            let id = id.number("the ID of a metadatum", &id.text())?;
            Ok((def.doc()?.0, id, def))
        })?;
        unique(
            "the metadatum",
            metadata.iter().map(|(name, _, def)| (name, *def)),
        )?;
        unique(
            "the metadata ID",
            metadata.iter().map(|(_, id, def)| (id, *def)),
        )?;
        let types = root.each_within("dataTypeDefs", "dataTypeDef", Ok)?;
        let metadata = metadata.into_iter().map(|(.., def)| def);
        let mut all = types.into_iter().chain(metadata);
        let checked = all.try_for_each(|def| self.kind(def, Scope::of(def)).map(drop));
        match checked {
            Err(XmlError {
                fault: Fault::TooManyParts(_),
                ..
            }) => Ok(()),
            other => other,
        }
    }

    /// Reads a component, a capability, or a member of a struct.
    pub(super) fn component(
        &mut self,
        component: Element<'a>,
        scope: Scope<'a>,
    ) -> Result<Component, XmlError> {
        let more = [
            ("optional", Often::AtMostOnce),
            ("defaultValue", Often::AtMostOnce),
        ];
        component.expect(&[&DOC[..], &TYPES, &more].concat())?;
        self.parts += 1;
        if self.parts > PARTS_MAX {
            return Err(component.error(Fault::TooManyParts(PARTS_MAX)));
        }
        let id = component.id("componentID")?;
        if id == 0 {
            // Component 0 denotes the properties of an LFB (RFC 7408, 2.5).
            return Err(component.value("componentID", "0", NOT_ZERO));
        }
        let (name, about) = component.doc()?;
        let access = read_access(&component)?.unwrap_or(scope.access);
        let scope = Scope {
            at: component,
            access,
            ..scope
        };
        Ok(Component {
            id,
            name,
            about,
            access,
            is_capability: false,
            optional: component.child("optional").is_some(),
            kind: self.kind(component, scope)?,
            default: component.optional_text("defaultValue"),
        })
    }

    /// Reads the only type within a declaration.
    fn kind(&mut self, within: Element<'a>, scope: Scope<'a>) -> Result<Kind, XmlError> {
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
        if scope.depth == scope.depth_max {
            return Err(ty.error(Fault::Nesting));
        }
        let scope = Scope {
            depth: scope.depth + 1,
            ..scope
        };
        Ok(match ty.name() {
            "typeRef" => self.named(&ty, scope)?,
            "atomic" => self.atomic(&ty, scope)?,
            "array" => Kind::Array(Box::new(self.array(ty, scope)?)),
            "struct" => Kind::Struct(self.members(&ty, scope)?),
            "union" => Kind::Union(self.members(&ty, scope)?),
            // The schema requires the bare name; some authors put a `typeRef` element around it, as elsewhere.
            _ => {
                let named = ty.child("typeRef");
                if named.is_some() {
                    ty.expect(&[("typeRef", Often::Once)])?;
                }
                Kind::Alias(Box::new(self.named(&named.unwrap_or(ty), scope)?))
            }
        })
    }

    /// Reads the name of a type; the result is the type.
    fn named(&mut self, element: &Element<'a>, scope: Scope<'a>) -> Result<Kind, XmlError> {
        element.expect(&[])?;
        let text = element.text();
        let (name, len) = match text.split_once('[') {
            Some((name, rest)) => {
                let digits = rest.strip_suffix(']').unwrap_or("");
                let len = element.number("the length of a type", digits.trim())?;
                (name.trim(), Some(len))
            }
            None => (text.as_str(), None),
        };
        let integer = match (name, len) {
            ("string", max) => return Ok(Kind::Text(max)),
            ("octetstring", max) => return Ok(Kind::Octets(max)),
            ("byte", Some(0)) => {
                return Err(scope.at.value("the length of a type", "0", NOT_ZERO));
            }
            ("byte", Some(len)) => return Ok(Kind::Bytes(len)),
            ("byte", None) | (_, Some(_)) | ("", _) => {
                let permitted = "the name of a type, byte[N], string, string[N] or octetstring[N]";
                return Err(element.value("a type", &text, permitted));
            }
            ("boolean", _) => return Ok(Kind::Flag),
            ("float32", _) => return Ok(Kind::Real32),
            ("float64", _) => return Ok(Kind::Real64),
            ("char", _) => Integer::Int8,
            ("uchar", _) => Integer::Uint8,
            ("int16", _) => Integer::Int16,
            ("uint16", _) => Integer::Uint16,
            ("int32", _) => Integer::Int32,
            ("uint32", _) => Integer::Uint32,
            ("int64", _) => Integer::Int64,
            ("uint64", _) => Integer::Uint64,
            (name, None) => return self.declared(name, scope),
        };
        Ok(Kind::Number(integer.into()))
    }

    /// The declared type of this name.
    fn declared(&mut self, name: &str, scope: Scope<'a>) -> Result<Kind, XmlError> {
        let def = self.types.get(name).copied();
        let at = def.ok_or_else(|| self.undeclared("type", name, scope.at))?;
        if self.above.iter().any(|above| above == name) {
            return Err(scope.at.error(Fault::Endless(name.into())));
        }
        self.above.push(name.into());
        let depth_max = DEPTH_MAX.min(scope.depth + NESTING_MAX);
        let kind = self.kind(
            at,
            Scope {
                at,
                depth_max,
                ..scope
            },
        );
        self.above.pop();
        kind
    }

    /// Reads a restricted number. Restrictions of other types do not affect the layout.
    fn atomic(&mut self, atomic: &Element<'a>, scope: Scope<'a>) -> Result<Kind, XmlError> {
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
        let ranges = atomic.each_within("rangeRestriction", "allowedRange", |range| {
            let (least, most) = (number(&range, "min")?, number(&range, "max")?);
            if least <= most {
                Ok((least, most))
            } else {
                Err(range.value("max", &most.to_string(), "at least min"))
            }
        })?;
        let names = atomic.each_within("specialValues", "specialValue", |special| {
            special.expect(&DOC)?;
            // The value of a boolean may be a word.
            let value = match special.attribute("value").as_deref() {
                Some("false") => 0,
                Some("true") => 1,
                _ => number(&special, "value")?,
            };
            let (name, about) = special.doc()?;
            Ok(Named { value, name, about })
        })?;
        let base = match self.named(&atomic.need("baseType")?, scope)? {
            Kind::Number(base) => base,
            other => return Ok(other),
        };
        Ok(Kind::Number(Number {
            base: base.base,
            ranges: if ranges.is_empty() {
                base.ranges
            } else {
                ranges
            },
            names: [names, base.names].concat(),
        }))
    }

    fn array(&mut self, array: Element<'a>, scope: Scope<'a>) -> Result<Array, XmlError> {
        array.expect(&[&TYPES[..], &[("contentKey", Often::Any)]].concat())?;
        let len = |name: &'static str| match array.attribute(name) {
            Some(text) => array.number(name, &text).map(Some),
            None => Ok(None),
        };
        let size = match array.attribute("type").as_deref() {
            Some("fixed-size") => {
                Size::Fixed(len("length")?.ok_or_else(|| array.missing("length"))?)
            }
            None | Some("variable-size") => Size::Variable(len("maxLength")?),
            Some(other) => {
                return Err(array.value(
                    "the type of an array",
                    other,
                    "fixed-size or variable-size",
                ));
            }
        };
        if size == Size::Fixed(0) {
            return Err(scope.at.value("the length of an array", "0", NOT_ZERO));
        }
        self.parts += 1;
        let element = self.kind(array, scope)?;
        let keys = array.each("contentKey", |key| Ok((self.key(&element, key)?, key)))?;
        unique("the key", keys.iter().map(|(key, at)| (key.id, *at)))?;
        Ok(Array {
            size,
            element,
            keys: keys.into_iter().map(|(key, _)| key).collect(),
        })
    }

    fn key(&self, element: &Kind, key: Element<'a>) -> Result<Key, XmlError> {
        key.expect(&[("contentKeyField", Often::Any)])?;
        let fields = key.each("contentKeyField", |field| {
            let text = field.text();
            let names = text.split('.').map(str::trim).filter(|_| text != "*");
            let (mut kind, mut ids) = (element, Vec::new());
            for name in names {
                let part = kind.own_members().iter().find(|member| member.name == name);
                let part = part.ok_or_else(|| self.undeclared("member", name, key))?;
                ids.push(part.id);
                kind = &part.kind;
            }
            Ok(ids)
        })?;
        if fields.is_empty() {
            return Err(key.missing("contentKeyField"));
        }
        Ok(Key {
            id: key.id("contentKeyID")?,
            fields,
        })
    }

    /// Reads the members of a struct or union, after those that it inherits.
    fn members(&mut self, of: &Element<'a>, scope: Scope<'a>) -> Result<Vec<Component>, XmlError> {
        of.expect(&[
            ("derivedFrom", Often::AtMostOnce),
            ("component", Often::Any),
        ])?;
        let mut members = match of.optional_text("derivedFrom") {
            Some(parent) => match self.declared(&parent, scope)? {
                Kind::Struct(members) | Kind::Union(members) => members,
                _ => return Err(self.undeclared("struct", &parent, scope.at)),
            },
            None => Vec::new(),
        };
        let own = of.each("component", |member| {
            Ok((self.component(member, scope)?, member))
        })?;
        if own.is_empty() && members.is_empty() {
            return Err(of.missing("component"));
        }
        unique("the ID", own.iter().map(|(member, at)| (member.id, *at)))?;
        unique(
            "the member",
            own.iter().map(|(member, at)| (&member.name, *at)),
        )?;
        for (member, _) in own {
            add(&mut members, member, scope.at)?;
        }
        Ok(members)
    }
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
