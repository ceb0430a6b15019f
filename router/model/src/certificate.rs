//! Requests about the certificates of a control element and of its forwarding elements (FEs).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest lifetime of a token, in minutes.
pub const TOKEN_MINUTES_MAX: u32 = 1440;

/// Invites an FE to enrol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InviteRequest {
    /// Name of the FE.
    pub fe: String,
    /// Lifetime of the token, at most a day.
    pub minutes: u32,
}

/// A token for an FE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Invitation {
    /// The token, which works once.
    pub token: String,
}

/// Revokes certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// Name of the FE, or SHA-256 fingerprint of a certificate.
    pub which: String,
}

/// Renews the certificate of the control element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewRequest {
    /// Whether to present the new certificate before all FEs trust it.
    pub now: bool,
}
