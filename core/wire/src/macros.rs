//! The two patterns that every file repeats.

/// The part of a view that is the same for every header: the buffer and the two constructors.
#[macro_export]
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $header:expr, $len:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(T);

        impl<T: AsRef<[u8]>> $name<T> {
            /// Wraps `buffer` without any check.
            pub const fn new_unchecked(buffer: T) -> Self {
                Self(buffer)
            }

            /// Wraps `buffer` if it holds the fixed part of the header; validates nothing else.
            pub fn new_checked(buffer: T) -> Result<Self, $crate::WireError> {
                $crate::error::needs($header, $len, buffer.as_ref().len())?;
                Ok(Self(buffer))
            }

            /// Returns the buffer.
            pub fn into_inner(self) -> T {
                self.0
            }

            #[inline]
            fn bytes(&self) -> &[u8] {
                self.0.as_ref()
            }
        }

        impl<T: AsRef<[u8]> + AsMut<[u8]>> $name<T> {
            #[inline]
            fn bytes_mut(&mut self) -> &mut [u8] {
                self.0.as_mut()
            }
        }
    };
}

/// Code points: a number with names for the known values. It stays a number, because the raw field of a header is
/// compared once for each packet.
macro_rules! codes {
    (
        $(#[$doc:meta])* $name:ident($int:ty) {
            $($(#[$code_doc:meta])* $code:ident = $value:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name(pub $int);

        impl $name {
            $($(#[$code_doc])* pub const $code: Self = Self($value);)*
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match *self {
                    $(Self::$code => f.write_str(concat!(stringify!($name), "::", stringify!($code))),)*
                    Self(n) => write!(f, concat!(stringify!($name), "({:#x})"), n),
                }
            }
        }

        impl From<$int> for $name {
            #[inline]
            fn from(code: $int) -> Self {
                Self(code)
            }
        }

        impl From<$name> for $int {
            #[inline]
            fn from(code: $name) -> Self {
                code.0
            }
        }
    };
}
