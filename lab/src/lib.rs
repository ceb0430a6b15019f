//! Draft.
pub mod scenario;
pub mod traffic;
