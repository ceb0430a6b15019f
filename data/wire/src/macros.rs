//! The two patterns that every file repeats.

/// The part of a view that is the same for every header: the buffer and the two constructors.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident, $header:expr, $len:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(T);

        impl<T: AsRef<[u8]>> $name<T> {
            /// Puts field names on `buffer` without any check.
            pub const fn new_unchecked(buffer: T) -> Self {
                Self(buffer)
            }

            /// Puts field names on `buffer` if the fixed part of the header fits; nothing else is
            /// validated.
            pub fn new_checked(buffer: T) -> Result<Self, $crate::WireError> {
                $crate::error::needs($header, $len, buffer.as_ref().len())?;
                Ok(Self(buffer))
            }

            /// The buffer again.
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

/// An enumeration of code points that keeps the unknown ones.
macro_rules! codes {
    (
        $(#[$doc:meta])* $name:ident($int:ty) {
            $($(#[$variant_doc:meta])* $variant:ident = $value:literal,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
            /// Any other code, kept as it is.
            Other($int),
        }

        impl From<$int> for $name {
            #[inline]
            fn from(code: $int) -> Self {
                match code {
                    $($value => Self::$variant,)*
                    n => Self::Other(n),
                }
            }
        }

        impl From<$name> for $int {
            #[inline]
            fn from(name: $name) -> Self {
                match name {
                    $($name::$variant => $value,)*
                    $name::Other(n) => n,
                }
            }
        }
    };
}
