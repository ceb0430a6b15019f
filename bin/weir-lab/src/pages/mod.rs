//! Reference pages of the lab in Markdown, generated from the declarations that the code itself uses.

pub(crate) mod metrics;
pub(crate) mod scenario;
