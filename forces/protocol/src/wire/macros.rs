//! The common shape of all code point enumerations.

/// An enumeration of code points with the names of the RFC. `Other` preserves unknown codes.
macro_rules! codes {
    (
        $(#[$doc:meta])* $name:ident($int:ty) {
            $($(#[$variant_doc:meta])* $variant:ident = $value:literal $text:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// Any other code, preserved unchanged.
            Other($int),
        }

        impl From<$int> for $name {
            fn from(code: $int) -> Self {
                match code {
                    $($value => Self::$variant,)*
                    n => Self::Other(n),
                }
            }
        }

        impl From<$name> for $int {
            fn from(name: $name) -> Self {
                match name {
                    $($name::$variant => $value,)*
                    $name::Other(n) => n,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)*
                    Self::Other(n) => write!(f, "{n:#x}"),
                }
            }
        }
    };
}
