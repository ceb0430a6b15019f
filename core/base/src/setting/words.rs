//! Enums of which each value has a word in configurations.

/// Declares an enum of which each value has a word; reads the words.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$about:meta])* $value:ident = $word:literal,)+
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$about])* $value,)+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];
            /// The words, in the order of the values.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word.
            pub const fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = String;
            fn from_str(word: &str) -> Result<Self, String> {
                let found = Self::ALL.iter().find(|value| value.word() == word);
                let known = || format!("must be one of {}", Self::WORDS.join(", "));
                found.copied().ok_or_else(known)
            }
        }
    };
}
