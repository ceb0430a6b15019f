//! Why a table cannot be read, or a request cannot be carried out.

/// Reason why a table cannot be read, or a request cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The query is wrong.
    Wrong(String),
    /// The request is impossible now, or always.
    Impossible(String),
    /// The requested thing does not exist.
    NotFound(String),
    /// The router does not answer.
    Silent(String),
}
