//! XML elements, with errors that state the line.

use roxmltree::{Document, Node};

use super::{Doc, Fault, XmlError};

/// How often an element may occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Often {
    Once,
    AtMostOnce,
    Any,
}

/// The child elements that make up a [`Doc`].
pub(super) const DOC: [(&str, Often); 3] = [
    ("name", Often::Once),
    ("synopsis", Often::Once),
    ("description", Often::AtMostOnce),
];

#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    node: Node<'a, 'a>,
}

impl<'a> Element<'a> {
    pub(super) fn root(document: &'a Document<'a>) -> Self {
        Self {
            node: document.root_element(),
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.node.tag_name().name()
    }

    pub(super) fn namespace(&self) -> &'a str {
        self.node.tag_name().namespace().unwrap_or_default()
    }

    pub(super) fn line(&self) -> u32 {
        let document = self.node.document();
        document.text_pos_at(self.node.range().start).row
    }

    pub(super) fn error(&self, fault: Fault) -> XmlError {
        XmlError {
            line: self.line(),
            fault,
        }
    }

    /// All direct child elements.
    pub(super) fn children(&self) -> impl Iterator<Item = Element<'a>> + use<'a> {
        let elements = self.node.children().filter(Node::is_element);
        elements.map(|node| Self { node })
    }

    /// Checks that the children have permitted names, and that each name occurs as often as permitted.
    pub(super) fn expect(&self, permitted: &[(&'static str, Often)]) -> Result<(), XmlError> {
        let mut counts = vec![0; permitted.len()];
        for child in self.children() {
            let at = permitted.iter().position(|(name, _)| *name == child.name());
            let Some(at) = at else {
                let names: Vec<_> = permitted.iter().map(|(name, _)| *name).collect();
                return Err(child.error(Fault::Unexpected {
                    found: child.name().into(),
                    within: self.name().into(),
                    permitted: match names.as_slice() {
                        [] => "no elements".into(),
                        names => names.join(", "),
                    },
                }));
            };
            counts[at] += 1;
            if counts[at] > 1 && permitted[at].1 != Often::Any {
                return Err(child.error(Fault::Twice {
                    within: self.name().into(),
                    what: permitted[at].0,
                }));
            }
        }
        let missing = permitted
            .iter()
            .zip(counts)
            .find(|((_, often), count)| *often == Often::Once && *count == 0);
        match missing {
            Some(((name, _), _)) => Err(self.missing(name)),
            None => Ok(()),
        }
    }

    pub(super) fn missing(&self, what: &'static str) -> XmlError {
        self.error(Fault::Missing {
            within: self.name().into(),
            what,
        })
    }

    pub(super) fn child(&self, name: &str) -> Option<Element<'a>> {
        self.children().find(|child| child.name() == name)
    }

    pub(super) fn need(&self, name: &'static str) -> Result<Element<'a>, XmlError> {
        self.child(name).ok_or_else(|| self.missing(name))
    }

    /// The text of this element, without surrounding whitespace.
    pub(super) fn text(&self) -> String {
        let pieces = self
            .node
            .children()
            .filter_map(|node| node.text().filter(|_| node.is_text()));
        pieces.collect::<String>().trim().into()
    }

    pub(super) fn optional_text(&self, name: &str) -> Option<String> {
        Some(self.child(name)?.text())
    }

    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        Some(self.node.attribute(name)?.trim().into())
    }

    pub(super) fn need_attribute(&self, name: &'static str) -> Result<String, XmlError> {
        self.attribute(name).ok_or_else(|| self.missing(name))
    }

    /// Reads an attribute that is a 32-bit number.
    pub(super) fn id(&self, name: &'static str) -> Result<u32, XmlError> {
        let text = self.need_attribute(name)?;
        self.number(name, &text)
    }

    pub(super) fn number(&self, what: &'static str, text: &str) -> Result<u32, XmlError> {
        let permitted = "a number from 0 to 4294967295";
        text.parse().map_err(|_| self.value(what, text, permitted))
    }

    pub(super) fn value(
        &self,
        what: &'static str,
        found: &str,
        permitted: &'static str,
    ) -> XmlError {
        self.error(Fault::Value {
            what,
            found: found.into(),
            permitted,
        })
    }

    /// Reads name, synopsis and description.
    pub(super) fn doc(&self) -> Result<Doc, XmlError> {
        let name = self.need("name")?;
        if name.text().is_empty() {
            return Err(name.value("a name", "", "at least one character"));
        }
        Ok(Doc {
            name: name.text(),
            synopsis: self.need("synopsis")?.text(),
            description: self.optional_text("description"),
            line: self.line(),
        })
    }

    /// Reads each child with this name.
    pub(super) fn each<T>(
        &self,
        name: &'static str,
        mut read: impl FnMut(Element<'a>) -> Result<T, XmlError>,
    ) -> Result<Vec<T>, XmlError> {
        let children = self.children().filter(|child| child.name() == name);
        children.map(&mut read).collect()
    }

    /// Reads each element of the only list with this name, if there is one.
    pub(super) fn each_within<T>(
        &self,
        list: &'static str,
        name: &'static str,
        read: impl FnMut(Element<'a>) -> Result<T, XmlError>,
    ) -> Result<Vec<T>, XmlError> {
        match self.child(list) {
            Some(list) => {
                list.expect(&[(name, Often::Any)])?;
                list.each(name, read)
            }
            None => Ok(Vec::new()),
        }
    }
}
