//! The parameters of a discipline, declared once: each field of its `Params` names the setting that it takes.
//!
//! ```text
//!  configuration --> Settings (each value in its range) --> Params (typed) --> Configured::limit (joint conditions)
//! ```
//!
//! The macro `params!` declares the struct. After `=` is the [`Parameter`] that sets the field. After `=>` are the
//! parameters of a group of fields, which `params!` also declares. The manual page lists them in this order. The macro
//! `words!` declares the words of a parameter.

use weir_base::setting::{Parameter, Setting, SettingError, Settings};
use weir_base::{Bytes, Rate, Span};
use weir_packet::KeyKind;

/// A struct of parameters.
pub trait Parameters: Clone + Send + Sync + 'static {
    /// The parameters, in the order of the manual page.
    const TABLE: &'static [Parameter];

    /// The values in settings of this table.
    fn read(settings: &Settings) -> Result<Self, SettingError>;
}

/// Declares a struct of parameters.
macro_rules! params {
    ($(#[$meta:meta])* pub struct $name:ident { $(
        $(#[$about:meta])*
        pub $field:ident: $type:ty $(= $parameter:expr)? $(=> [$($part:expr),* $(,)?])?,
    )* }) => {
        $(#[$meta])*
        pub struct $name { $($(#[$about])* pub $field: $type,)* }

        impl $crate::params::Parameters for $name {
            const TABLE: &'static [weir_base::setting::Parameter] =
                &[$($($parameter,)? $($($part,)*)?)*];

            fn read(
                settings: &weir_base::setting::Settings,
            ) -> Result<Self, weir_base::setting::SettingError> {
                Ok(Self {
                    $($field: params!(@read settings $type $(= $parameter)? $(=> [$($part),*])?),)*
                })
            }
        }
    };
    (@read $settings:ident $type:ty = $parameter:expr) => {
        $crate::params::value($settings, &$parameter)?
    };
    (@read $settings:ident $type:ty => $parts:tt) => {
        <$type as $crate::params::Parameters>::read($settings)?
    };
}
pub(crate) use params;

/// A type that one setting sets.
pub(crate) trait Value: Sized {
    /// The value; an error explains why this setting has none.
    fn of(setting: &Setting) -> Result<Self, String>;
}

/// The value of one parameter.
pub(crate) fn value<V: Value>(
    settings: &Settings,
    parameter: &Parameter,
) -> Result<V, SettingError> {
    let name = parameter.name;
    V::of(settings.setting(name)).map_err(|why| SettingError::Contradiction { name, why })
}

/// The place of a setting in a list of words.
pub(crate) fn place(setting: &Setting, words: &[&'static str]) -> Result<usize, String> {
    let place = words.iter().position(|w| *setting == Setting::Word(w));
    place.ok_or_else(|| format!("{setting} is not one of {}", words.join(", ")))
}

/// Declares an enum of which each value has a word, as a type that a setting sets.
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$about:meta])* $value:ident = $word:literal,)+
    }) => {
        weir_base::words! {
            $(#[$meta])*
            pub enum $name { $($(#[$about])* $value = $word,)+ }
        }

        impl $crate::params::Value for $name {
            fn of(setting: &weir_base::setting::Setting) -> Result<Self, String> {
                $crate::params::place(setting, Self::WORDS).map(|place| Self::ALL[place])
            }
        }
    };
}
pub(crate) use words;

macro_rules! values {
    ($($type:ty: $pattern:pat => $value:expr;)+) => {$(
        impl Value for $type {
            fn of(setting: &Setting) -> Result<Self, String> {
                match setting {
                    $pattern => Ok($value),
                    other => Err(format!("{other} is not a {}", stringify!($type))),
                }
            }
        }
    )+};
}

values! {
    u64: Setting::Count(n) | Setting::Bytes(Bytes(n)) => *n;
    usize: Setting::Count(n) => *n as usize;
    u32: Setting::Count(n) => *n as u32;
    f64: Setting::Ratio(x) => *x;
    Span: Setting::Span(span) => *span;
    Rate: Setting::Rate(rate) => *rate;
    Bytes: Setting::Bytes(bytes) => *bytes;
    bool: Setting::Flag(on) => *on;
    &'static str: Setting::Word(word) => word;
}

impl Value for KeyKind {
    fn of(setting: &Setting) -> Result<Self, String> {
        place(setting, Self::WORDS).map(|place| Self::ALL[place].1)
    }
}
