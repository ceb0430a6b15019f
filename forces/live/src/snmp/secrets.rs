//! Secrets for reading a device: a community, or a user with passwords, in a file of its own.
//!
//! ```text
//!   community = "public"                    # SNMPv2c: sent in the clear
//! ```
//!
//! ```text
//!   user = "weir"                           # SNMPv3
//!   auth = "sha256"                         # md5, sha1, sha256 or sha512
//!   auth_password = "at least 8 characters"
//!   privacy = "aes"                         # aes or des; without it, answers are not encrypted
//!   privacy_password = "at least 8 characters"
//! ```

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use snmp2::v3::{Auth, AuthProtocol, Cipher, Security};

use weir_live::file;

/// Longest file, in bytes.
const BYTES_MAX: u64 = 4096;
/// Shortest password (RFC 3414, section 11.2).
const PASSWORD_MIN: usize = 8;
const KEYS: [&str; 6] = [
    "community",
    "user",
    "auth",
    "auth_password",
    "privacy",
    "privacy_password",
];

/// Secrets for reading a device.
#[derive(Clone, PartialEq, Eq)]
pub enum Secrets {
    /// SNMPv2c.
    Community(String),
    /// SNMPv3.
    User(User),
}

/// A user of SNMPv3.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    /// Authentication protocol and password.
    auth: (AuthProtocol, String),
    /// Privacy cipher and password, if answers are encrypted.
    privacy: Option<(Cipher, String)>,
}

/// Why a file has no secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", file.display())]
pub struct SecretsError {
    file: PathBuf,
    why: String,
}

impl Secrets {
    /// Reads a file. Refuses a file that users other than its owner and its group may read.
    pub fn read(path: &Path) -> Result<Self, SecretsError> {
        let error = |why: String| SecretsError {
            file: path.to_owned(),
            why,
        };
        let metadata = std::fs::metadata(path).map_err(|e| error(e.to_string()))?;
        if metadata.permissions().mode() & 0o007 != 0 {
            let why = format!(
                "any user can access these secrets: chmod 600 {}",
                path.display()
            );
            return Err(error(why));
        }
        let text = file::read_text(path, BYTES_MAX).map_err(|e| error(e.to_string()))?;
        Self::parse(&text).map_err(error)
    }

    /// Parses the lines of a file. The error names the line, but never a secret.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut values: [Option<&str>; KEYS.len()] = [None; KEYS.len()];
        for (number, line) in (1..).zip(text.lines().map(str::trim)) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |why: &str| format!("line {number} {why}");
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| wrong("must be KEY = \"VALUE\""))?;
            let known = KEYS.iter().position(|known| *known == key.trim());
            let known = known
                .ok_or_else(|| wrong(&format!("must begin with one of {}", KEYS.join(", "))))?;
            let quoted = value
                .trim()
                .strip_prefix('"')
                .and_then(|value| value.split_once('"'));
            let (value, rest) = quoted.ok_or_else(|| wrong("must have its value in quotes"))?;
            if !(rest.trim().is_empty() || rest.trim().starts_with('#')) {
                return Err(wrong("has more than one value"));
            }
            if values[known].replace(value).is_some() {
                return Err(wrong("repeats a key"));
            }
        }
        Self::of(values)
    }

    fn of(values: [Option<&str>; KEYS.len()]) -> Result<Self, String> {
        let [
            community,
            user,
            auth,
            auth_password,
            privacy,
            privacy_password,
        ] = values;
        let password = |key: &str, value: Option<&str>| match value {
            Some(value) if value.len() >= PASSWORD_MIN => Ok(value.to_owned()),
            _ => Err(format!(
                "`{key}` must have at least {PASSWORD_MIN} characters"
            )),
        };
        match (community, user) {
            (Some(community), None) => {
                if [auth, auth_password, privacy, privacy_password]
                    .iter()
                    .any(Option::is_some)
                {
                    return Err("passwords belong to a `user`, not to a `community`".to_owned());
                }
                Ok(Self::Community(community.to_owned()))
            }
            (None, Some(user)) => {
                let protocol = match auth {
                    Some("md5") => AuthProtocol::Md5,
                    Some("sha1") => AuthProtocol::Sha1,
                    Some("sha256") => AuthProtocol::Sha256,
                    Some("sha512") => AuthProtocol::Sha512,
                    _ => return Err("`auth` must be md5, sha1, sha256 or sha512".to_owned()),
                };
                let cipher = match privacy {
                    Some("aes") => Some(Cipher::Aes128),
                    Some("des") => Some(Cipher::Des),
                    None if privacy_password.is_none() => None,
                    _ => return Err("`privacy` must be aes or des".to_owned()),
                };
                let with_password = |cipher| {
                    let password = password("privacy_password", privacy_password);
                    password.map(|password| (cipher, password))
                };
                let privacy = cipher.map(with_password);
                Ok(Self::User(User {
                    name: user.to_owned(),
                    auth: (protocol, password("auth_password", auth_password)?),
                    privacy: privacy.transpose()?,
                }))
            }
            _ => Err("it must have either a `community` or a `user`".to_owned()),
        }
    }
}

impl User {
    /// The user in the library's form.
    pub(super) fn security(&self) -> Security {
        let how = match &self.privacy {
            None => Auth::AuthNoPriv,
            Some((cipher, password)) => Auth::AuthPriv {
                cipher: *cipher,
                privacy_password: password.as_bytes().to_vec(),
            },
        };
        let security = Security::new(self.name.as_bytes(), self.auth.1.as_bytes());
        security.with_auth_protocol(self.auth.0).with_auth(how)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Community(_) => "Community",
            Self::User(_) => "User",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "user = \"weir\"\nauth = \"sha256\" # good\nauth_password = \"12345678\"\n";

    #[test]
    fn secrets_are_a_community_or_a_user() {
        let community = Secrets::parse("# core\ncommunity = \"public\"\n");
        assert_eq!(community, Ok(Secrets::Community("public".to_owned())));
        let is_private = |more: &str| match Secrets::parse(&format!("{USER}{more}")) {
            Ok(Secrets::User(user)) => user.privacy.is_some(),
            other => panic!("{other:?}"),
        };
        assert!(!is_private(""));
        assert!(is_private(
            "privacy = \"aes\"\nprivacy_password = \"87654321\""
        ));
        assert!(!format!("{:?}", Secrets::parse(USER)).contains("weir"));
    }

    #[test]
    fn errors_name_the_line_and_never_a_secret() {
        let why = |text: &str| Secrets::parse(text).unwrap_err();
        assert_eq!(why(""), "it must have either a `community` or a `user`");
        assert_eq!(
            why("\ncommunty = \"secret\"").split(", ").next(),
            Some("line 2 must begin with one of community")
        );
        assert_eq!(
            why("community = secret"),
            "line 1 must have its value in quotes"
        );
        assert_eq!(why("secret"), "line 1 must be KEY = \"VALUE\"");
        assert!(why(&format!("{USER}{USER}")).starts_with("line 4 repeats a key"));
        assert!(why(&format!("{USER}privacy = \"rot13\"")).contains("aes or des"));
        assert!(why(&format!("{USER}privacy = \"aes\"")).contains("`privacy_password` must have"));
        assert!(why(&format!("{USER}privacy_password = \"87654321\"")).contains("aes or des"));
        assert!(
            why("user = \"weir\"\nauth = \"sha1\"\nauth_password = \"short\"")
                .contains("at least 8")
        );
        assert!(why("community = \"secret\"\nauth = \"sha1\"").contains("belong to a `user`"));
        assert!(why(&format!("{USER}community = \"secret\"")).contains("either"));
    }

    #[test]
    fn a_file_that_everybody_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("weir-snmp-{}", std::process::id()));
        std::fs::write(&path, "community = \"public\"\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        mode(0o644);
        let open = Secrets::read(&path).unwrap_err().to_string();
        mode(0o600);
        let closed = Secrets::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert!(open.contains("chmod 600"), "{open}");
        assert!(closed.is_ok());
    }
}
