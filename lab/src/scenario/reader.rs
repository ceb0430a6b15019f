//! Reading one section of a scenario: takes its keys by their tables of parameters, and refuses
//! what is left over.

use std::cell::RefCell;

use weir_base::setting::{Parameter, Scalar, Setting, nearest};
use weir_base::{Bytes, Rate, Span};

use super::ScenarioError;
use super::raw::{Node, Origin, Value};

/// One section while it is read.
pub(super) struct Section<'a> {
    /// Its path in the file, for messages: `link.out`.
    pub(super) path: String,
    node: &'a Node,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// The section `node`, which must be a table.
    pub(super) fn new(path: &str, node: &'a Node) -> Result<Self, ScenarioError> {
        match node.value {
            Value::Table(_) => Ok(Self {
                path: path.to_owned(),
                node,
                asked: RefCell::default(),
            }),
            _ => {
                let why = format!("`{path}` must be a section, like [{path}]");
                Err(ScenarioError::new(node.origin.clone(), why))
            }
        }
    }

    /// Where the section begins.
    pub(super) fn origin(&self) -> Origin {
        self.node.origin.clone()
    }

    /// The entry `key`, if there is one.
    pub(super) fn find(&self, key: &'static str) -> Option<&'a Node> {
        self.asked.borrow_mut().push(key);
        self.node.entry(key)
    }

    /// Where `key` was written; the section's place if it was not.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.node.entry(key).unwrap_or(self.node).origin.clone()
    }

    /// An error about `key`.
    pub(super) fn error(&self, key: &str, why: impl std::fmt::Display) -> ScenarioError {
        let path = self.path_of(key);
        ScenarioError::new(self.origin_of(key), format!("`{path}` {why}"))
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// The value of `parameter` if it was written.
    pub(super) fn optional(
        &self,
        parameter: &'static Parameter,
    ) -> Result<Option<Setting>, ScenarioError> {
        let Some(node) = self.find(parameter.name) else {
            return Ok(None);
        };
        let named = Parameter {
            name: "",
            ..*parameter
        };
        let Value::Scalar(scalar) = &node.value else {
            let why = format!("must be {}", &parameter.kind);
            return Err(self.error(parameter.name, why));
        };
        named.check(scalar).map(Some).map_err(|_| {
            let permitted = &parameter.kind;
            let why = format!("is {scalar}, but must be {permitted}");
            self.error(parameter.name, why)
        })
    }

    /// The value of `parameter`, or its default.
    pub(super) fn setting(&self, parameter: &'static Parameter) -> Result<Setting, ScenarioError> {
        match self.optional(parameter)? {
            Some(setting) => Ok(setting),
            None => parameter
                .check(&Scalar::Text(parameter.default.to_owned()))
                .map_err(|_| self.error(parameter.name, "must be given")),
        }
    }

    /// A count.
    pub(super) fn count(&self, parameter: &'static Parameter) -> Result<u64, ScenarioError> {
        match self.setting(parameter)? {
            Setting::Count(n) => Ok(n),
            other => unreachable!("{} is {other:?}", parameter.name),
        }
    }

    /// A time.
    pub(super) fn span(&self, parameter: &'static Parameter) -> Result<Span, ScenarioError> {
        match self.setting(parameter)? {
            Setting::Span(span) => Ok(span),
            other => unreachable!("{} is {other:?}", parameter.name),
        }
    }

    /// A time without default.
    pub(super) fn optional_span(
        &self,
        parameter: &'static Parameter,
    ) -> Result<Option<Span>, ScenarioError> {
        Ok(self.optional(parameter)?.map(|setting| match setting {
            Setting::Span(span) => span,
            other => unreachable!("{} is {other:?}", parameter.name),
        }))
    }

    /// A rate without default.
    pub(super) fn optional_rate(
        &self,
        parameter: &'static Parameter,
    ) -> Result<Option<Rate>, ScenarioError> {
        Ok(self.optional(parameter)?.map(|setting| match setting {
            Setting::Rate(rate) => rate,
            other => unreachable!("{} is {other:?}", parameter.name),
        }))
    }

    /// A size.
    pub(super) fn bytes(&self, parameter: &'static Parameter) -> Result<Bytes, ScenarioError> {
        match self.setting(parameter)? {
            Setting::Bytes(bytes) => Ok(bytes),
            other => unreachable!("{} is {other:?}", parameter.name),
        }
    }

    /// One of a parameter's words.
    pub(super) fn word(
        &self,
        parameter: &'static Parameter,
    ) -> Result<&'static str, ScenarioError> {
        match self.setting(parameter)? {
            Setting::Word(word) => Ok(word),
            other => unreachable!("{} is {other:?}", parameter.name),
        }
    }

    /// A text, if it was written.
    pub(super) fn text(&self, key: &'static str) -> Result<Option<String>, ScenarioError> {
        match self.find(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Scalar(Scalar::Text(text))) => Ok(Some(text.clone())),
            Some(_) => Err(self.error(key, "must be a text in quotes")),
        }
    }

    /// A text that must be there.
    pub(super) fn required_text(&self, key: &'static str) -> Result<String, ScenarioError> {
        self.text(key)?
            .ok_or_else(|| self.error(key, "must be given"))
    }

    /// The subsections of `key` in the order of the file: `[key.NAME]`.
    pub(super) fn sections(
        &self,
        key: &'static str,
    ) -> Result<Vec<(String, Section<'a>)>, ScenarioError> {
        let Some(node) = self.find(key) else {
            return Ok(Vec::new());
        };
        let all = Section::new(&self.path_of(key), node)?;
        node.entries()
            .iter()
            .map(|(name, inner)| {
                let section = Section::new(&all.path_of(name), inner)?;
                Ok((name.clone(), section))
            })
            .collect()
    }

    /// Refuses keys that nobody asked for.
    pub(super) fn finish(self) -> Result<(), ScenarioError> {
        let asked = self.asked.borrow();
        let stranger = self
            .node
            .entries()
            .iter()
            .find(|(key, _)| !asked.contains(&key.as_str()));
        let Some((key, node)) = stranger else {
            return Ok(());
        };
        let near = nearest(key, asked.iter().copied());
        let near = near.map(|k| format!("; did you mean `{k}`?"));
        let place = match self.path.as_str() {
            "" => String::new(),
            path => format!(" in [{path}]"),
        };
        let why = format!("unknown key `{key}`{place}{}", near.unwrap_or_default());
        Err(ScenarioError::new(node.origin.clone(), why))
    }
}
