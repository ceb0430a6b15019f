//! Why something cannot be read or done.

/// Reason why a table cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its query is wrong.
    Wrong(String),
    /// There is no way to do it now, or at all.
    Impossible(String),
    /// There is no such thing.
    NotFound(String),
    /// The router does not answer.
    Silent(String),
}
