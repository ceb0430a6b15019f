//! Reads one section of a scenario: reads the keys in its tables of parameters, and refuses all others.

use std::cell::RefCell;
use std::str::FromStr;

use weir_base::setting::{Kind, Parameter, Scalar, Setting, SettingError, did_you_mean, nearest};
use weir_base::units::UnitError;
use weir_base::varying::Level;
use weir_base::{Bytes, Framing, Rate, Sizes, Span, Times, Varying};
use weir_config::{ConfigError, Node, Origin, Value};

use super::key::{Form, Key, WEIGHT_MAX};

const WEIGHT_MAX_INTEGER: i64 = WEIGHT_MAX as i64;

/// A section while it is read.
pub struct Section<'a> {
    /// The section's path in the file, for messages: `link.out`.
    pub path: String,
    node: &'a Node,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Section<'a> {
    /// The section `node`, which must be a table.
    pub(super) fn new(path: &str, node: &'a Node) -> Result<Self, ConfigError> {
        match node.value {
            Value::Table(_) => Ok(Self {
                path: path.to_owned(),
                node,
                asked: RefCell::default(),
            }),
            _ => {
                let why = format!("`{path}` must be a table, like [{path}]");
                Err(ConfigError::new(node.origin.clone(), why))
            }
        }
    }

    /// The origin of the section.
    pub fn origin(&self) -> Origin {
        self.node.origin.clone()
    }

    /// The entry `key`, if there is one.
    pub(super) fn find(&self, key: &'static Key) -> Option<&'a Node> {
        self.asked.borrow_mut().push(key.name);
        self.node.entry(key.name)
    }

    /// The entry `name`, whose table another reader reads.
    pub fn entry(&self, name: &str) -> Option<&'a Node> {
        self.node.entry(name)
    }

    /// The origin of `key`; the section's origin if the key is absent.
    pub(super) fn origin_of(&self, key: &str) -> Origin {
        self.node.entry(key).unwrap_or(self.node).origin.clone()
    }

    /// An error about `key`.
    pub fn error(&self, key: &str, why: impl std::fmt::Display) -> ConfigError {
        let path = self.path_of(key);
        ConfigError::new(self.origin_of(key), format!("`{path}` {why}"))
    }

    /// The path of `key` in the file, for messages.
    pub(super) fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    /// The value of `key`, if present.
    pub(super) fn optional(&self, key: &'static Key) -> Result<Option<Setting>, ConfigError> {
        let Some(node) = self.find(key) else {
            return Ok(None);
        };
        let Value::Scalar(scalar) = &node.value else {
            return Err(self.error(key.name, format!("must be {}", &key.form)));
        };
        parameter(key).check(scalar).map(Some).map_err(|error| {
            let permitted = match error {
                SettingError::NotPermitted { permitted, .. } => permitted,
                _ => key.form.to_string(),
            };
            self.error(key.name, format!("is {scalar}, but must be {permitted}"))
        })
    }

    /// The value of `key`, or its default.
    pub(super) fn setting(&self, key: &'static Key) -> Result<Setting, ConfigError> {
        match self.optional(key)? {
            Some(setting) => Ok(setting),
            None => parameter(key)
                .check(&Scalar::Text(key.default.to_owned()))
                .map_err(|_| self.error(key.name, "is missing")),
        }
    }

    /// A count.
    pub fn count(&self, key: &'static Key) -> Result<u64, ConfigError> {
        match self.setting(key)? {
            Setting::Count(n) => Ok(n),
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// A count without a default.
    pub fn optional_count(&self, key: &'static Key) -> Result<Option<u64>, ConfigError> {
        Ok(self.optional(key)?.map(|setting| match setting {
            Setting::Count(n) => n,
            other => unreachable!("{} is {other:?}", key.name),
        }))
    }

    /// A time.
    pub(super) fn span(&self, key: &'static Key) -> Result<Span, ConfigError> {
        match self.setting(key)? {
            Setting::Span(span) => Ok(span),
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// A time without a default.
    pub fn optional_span(&self, key: &'static Key) -> Result<Option<Span>, ConfigError> {
        Ok(self.optional(key)?.map(|setting| match setting {
            Setting::Span(span) => span,
            other => unreachable!("{} is {other:?}", key.name),
        }))
    }

    /// A rate without a default.
    pub fn optional_rate(&self, key: &'static Key) -> Result<Option<Rate>, ConfigError> {
        Ok(self.optional(key)?.map(|setting| match setting {
            Setting::Rate(rate) => rate,
            other => unreachable!("{} is {other:?}", key.name),
        }))
    }

    /// A rate over time, without a default.
    pub(super) fn rate_course(
        &self,
        key: &'static Key,
    ) -> Result<Option<Varying<Rate>>, ConfigError> {
        let Form::RateCourse(min, max) = key.form else {
            unreachable!("{} holds no course of a rate", key.name)
        };
        let outage = Rate::default();
        self.course(key, |rate| rate == outage || (min..=max).contains(&rate))
    }

    /// A time that changes during the run, without a default.
    pub(super) fn span_course(
        &self,
        key: &'static Key,
    ) -> Result<Option<Varying<Span>>, ConfigError> {
        let Form::SpanCourse(min, max) = key.form else {
            unreachable!("{} holds no course of a time", key.name)
        };
        self.course(key, |span| (min..=max).contains(&span))
    }

    fn course<T: Level>(
        &self,
        key: &'static Key,
        permits: impl Fn(T) -> bool,
    ) -> Result<Option<Varying<T>>, ConfigError> {
        let text = match self.find(key).map(|node| &node.value) {
            None => return Ok(None),
            Some(Value::Scalar(Scalar::Text(text))) => text,
            Some(_) => return Err(self.error(key.name, format!("must be {}", key.form))),
        };
        let is_single = !["sawtooth ", " from ", ","]
            .iter()
            .any(|w| text.contains(w));
        if is_single {
            self.optional(key)?; // its errors name the permitted single values
        }
        let course: Varying<T> = text.parse().map_err(|why| self.error(key.name, why))?;
        self.within(key, course.values().all(permits))?;
        Ok(Some(course))
    }

    /// A size without a default.
    pub fn optional_bytes(&self, key: &'static Key) -> Result<Option<Bytes>, ConfigError> {
        Ok(self.optional(key)?.map(|setting| match setting {
            Setting::Bytes(bytes) => bytes,
            other => unreachable!("{} is {other:?}", key.name),
        }))
    }

    /// A size.
    pub(super) fn bytes(&self, key: &'static Key) -> Result<Bytes, ConfigError> {
        match self.setting(key)? {
            Setting::Bytes(bytes) => Ok(bytes),
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// A framing, the overhead on the wire beyond the IP packet.
    pub(super) fn framing(&self, key: &'static Key) -> Result<Framing, ConfigError> {
        match self.setting(key)? {
            Setting::Bytes(bytes) => Ok(Framing::bytes(bytes.0 as i32)),
            Setting::Text(words) => {
                let wrong = |why| self.error(key.name, format!("is \"{words}\", but {why}"));
                Framing::of_words(&words).map_err(wrong)
            }
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// A share.
    pub(super) fn ratio(&self, key: &'static Key) -> Result<f64, ConfigError> {
        match self.setting(key)? {
            Setting::Ratio(share) => Ok(share),
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// One word of a parameter's list of words.
    pub fn word(&self, key: &'static Key) -> Result<&'static str, ConfigError> {
        match self.setting(key)? {
            Setting::Word(word) => Ok(word),
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// On or off.
    pub(super) fn flag(&self, key: &'static Key) -> Result<bool, ConfigError> {
        match self.setting(key)? {
            Setting::Flag(on) => Ok(on),
            other => unreachable!("{} is {other:?}", key.name),
        }
    }

    /// Sizes without a default.
    pub(super) fn sizes(&self, key: &'static Key) -> Result<Option<Sizes>, ConfigError> {
        let Form::Sizes(min, max) = key.form else {
            unreachable!("{} holds no sizes", key.name)
        };
        let Some(sizes) = self.read::<Sizes>(key)? else {
            return Ok(None);
        };
        let (least, most) = sizes.0.described();
        self.within(key, least >= min.0 as f64 && most <= max.0 as f64)?;
        Ok(Some(sizes))
    }

    /// Times without a default.
    pub(super) fn times(&self, key: &'static Key) -> Result<Option<Times>, ConfigError> {
        let Form::Times(min, max) = key.form else {
            unreachable!("{} holds no times", key.name)
        };
        let Some(times) = self.read::<Times>(key)? else {
            return Ok(None);
        };
        let (least, most) = times.0.described();
        self.within(key, least >= min.as_secs_f64() && most <= max.as_secs_f64())?;
        Ok(Some(times))
    }

    /// A value parsed from a string, or its default.
    pub(super) fn parsed<T: FromStr<Err = String> + Default>(
        &self,
        key: &'static Key,
    ) -> Result<T, ConfigError> {
        match self.text(key)? {
            Some(text) => text.parse().map_err(|e| self.error(key.name, e)),
            None => Ok(T::default()),
        }
    }

    fn read<T: FromStr<Err = UnitError>>(
        &self,
        key: &'static Key,
    ) -> Result<Option<T>, ConfigError> {
        let read = self.text(key)?.map(|text| text.parse::<T>());
        read.transpose().map_err(|error| {
            let UnitError { text, expected } = &error;
            self.error(key.name, format!("is \"{text}\", but must be {expected}"))
        })
    }

    fn within(&self, key: &'static Key, inside: bool) -> Result<(), ConfigError> {
        if inside {
            Ok(())
        } else {
            Err(self.error(key.name, format!("must be {}", key.form)))
        }
    }

    /// A string, if present.
    pub fn text(&self, key: &'static Key) -> Result<Option<String>, ConfigError> {
        match self.find(key).map(|node| &node.value) {
            None => Ok(None),
            Some(Value::Scalar(Scalar::Text(text))) => Ok(Some(text.clone())),
            Some(_) => Err(self.error(key.name, "must be a string in quotes")),
        }
    }

    /// A required string.
    pub(super) fn required_text(&self, key: &'static Key) -> Result<String, ConfigError> {
        self.text(key)?
            .ok_or_else(|| self.error(key.name, "is missing"))
    }

    /// A required string in a section whose keys have no table here: a discipline, a variant.
    pub(super) fn required_word(&self, key: &'static str) -> Result<String, ConfigError> {
        self.asked.borrow_mut().push(key);
        match self.node.entry(key).map(|node| &node.value) {
            None => Err(self.error(key, "is missing")),
            Some(Value::Scalar(Scalar::Text(text))) => Ok(text.clone()),
            Some(_) => Err(self.error(key, "must be a string in quotes")),
        }
    }

    /// A list of names, if present.
    pub fn names(&self, key: &'static Key) -> Result<Option<Vec<String>>, ConfigError> {
        self.list(key, |scalar| match scalar {
            Scalar::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// A list of weights, if present.
    pub fn weights(&self, key: &'static Key) -> Result<Option<Vec<u32>>, ConfigError> {
        self.list(key, |scalar| match scalar {
            Scalar::Integer(n @ 1..=WEIGHT_MAX_INTEGER) => Some(*n as u32),
            _ => None,
        })
    }

    /// A list of values, if present.
    fn list<T>(
        &self,
        key: &'static Key,
        read: impl Fn(&Scalar) -> Option<T>,
    ) -> Result<Option<Vec<T>>, ConfigError> {
        let Some(node) = self.find(key) else {
            return Ok(None);
        };
        let item = |item: &Node| {
            let value = match &item.value {
                Value::Scalar(scalar) => read(scalar),
                _ => None,
            };
            value.ok_or_else(|| self.error(key.name, format!("must be {}", key.form)))
        };
        node.items()
            .iter()
            .map(item)
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// The subsections of `key` in the order of the file: `[key.NAME]`.
    pub fn sections(&self, key: &'static str) -> Result<Vec<(String, Section<'a>)>, ConfigError> {
        let Some(node) = self.node.entry(key) else {
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

    /// Refuses keys that are in none of these tables.
    pub fn finish(self, tables: &[&[&'static Key]]) -> Result<(), ConfigError> {
        self.finish_with(tables, &[])
    }

    /// Refuses keys that are neither in these tables nor among these names.
    pub(super) fn finish_with(
        self,
        tables: &[&[&'static Key]],
        more: &[&'static str],
    ) -> Result<(), ConfigError> {
        let keys = tables.iter().flat_map(|table| table.iter());
        let known: Vec<&str> = keys
            .map(|key| key.name)
            .chain(more.iter().copied())
            .collect();
        let asked = self.asked.borrow();
        debug_assert!(
            asked.iter().all(|key| known.contains(key))
                && known
                    .iter()
                    .all(|key| asked.contains(key) || more.contains(key)),
            "{}: the tables have {known:?}, and {asked:?} were read",
            self.path
        );
        let stranger = self
            .node
            .entries()
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()));
        let Some((key, node)) = stranger else {
            return Ok(());
        };
        let near = remedy(key, &known);
        let place = match self.path.as_str() {
            "" => String::new(),
            path => format!(" in [{path}]"),
        };
        let why = format!("unknown key `{key}`{place}{near}");
        Err(ConfigError::new(node.origin.clone(), why))
    }
}

/// Keys of other programs, and our keys for them.
const FOREIGN: &[(&[&str], &str)] = &[
    (&["queue", "qdisc", "aqm", "scheduler"], "discipline"),
    (&["cc", "tcp", "recovery"], "congestion"),
    (&["bandwidth", "capacity", "speed"], "rate"),
    (&["latency"], "delay"),
];
/// Keys of the discipline `impair` that other programs have on a link.
const IMPAIRMENTS: &[&str] = &["loss", "jitter", "reorder", "duplicate", "corrupt"];

/// The end of an error about an unknown key: suggestions of keys.
fn remedy(key: &str, known: &[&str]) -> String {
    let foreign = FOREIGN.iter().find(|(names, _)| names.contains(&key));
    match foreign.filter(|(_, ours)| known.contains(ours)) {
        Some((_, ours)) => format!("; weir calls it `{ours}`"),
        None if IMPAIRMENTS.contains(&key) => {
            "; use the link's discipline { kind = \"impair\", .. } for this".into()
        }
        None => did_you_mean(nearest(key, known.iter().copied())),
    }
}

/// A key as a parameter; only for keys that accept a single value.
fn parameter(key: &'static Key) -> Parameter {
    match key.form {
        Form::Setting(kind) => Parameter::new(key.name, kind, key.default, key.about),
        Form::RateCourse(min, max) => {
            Parameter::new(key.name, Kind::Rate(min, max), key.default, key.about)
        }
        Form::SpanCourse(min, max) => {
            Parameter::new(key.name, Kind::Span(min, max), key.default, key.about)
        }
        other => unreachable!("{} is {other:?}", key.name),
    }
}
