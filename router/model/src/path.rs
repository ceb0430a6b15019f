//! The path of a component in a configuration.
//!
//! ```text
//!   port.wan.rate              at a router: the keys that lead to it in a configuration file
//!   port."eth0.100".rate       a name with other characters than letters, digits, `_` and `-` is quoted, as in TOML
//!   edge1:port.wan.rate        at a control element: the name of a forwarding element (FE) precedes the path
//! ```

use std::fmt;
use std::str::FromStr;

use toml_edit::Key;

/// The path of a component: `port.wan.discipline.cache`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentPath(Vec<String>);

impl ComponentPath {
    /// The path of these segments.
    pub fn new<S: Into<String>>(segments: impl IntoIterator<Item = S>) -> Self {
        Self(segments.into_iter().map(Into::into).collect())
    }

    /// The path of a child: one level down.
    pub fn join(&self, segment: &str) -> Self {
        self.below([segment])
    }

    /// The path that continues with these segments.
    pub fn below<S: Into<String>>(&self, segments: impl IntoIterator<Item = S>) -> Self {
        let mut path = self.clone();
        path.0.extend(segments.into_iter().map(Into::into));
        path
    }

    /// The segments.
    pub fn segments(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }

    /// One level up; the root stays the root.
    pub fn parent(&self) -> Self {
        let kept = self.0.len().saturating_sub(1);
        Self(self.0[..kept].to_vec())
    }

    /// Whether this is the path of the whole router.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromStr for ComponentPath {
    type Err = String;

    /// Reads the syntax of TOML keys: `port."eth0.100".rate`. The error is a sentence.
    fn from_str(text: &str) -> Result<Self, String> {
        match Key::parse(text.trim()) {
            Ok(keys) => Ok(Self::new(keys.iter().map(Key::get))),
            Err(_) => Err(format!(
                "`{text}` is not the path of a component, like port.wan.rate; quote a name that contains a dot, like \
                 port.\"eth0.100\".rate"
            )),
        }
    }
}

impl fmt::Display for ComponentPath {
    /// As in TOML: a segment that is not a bare key is quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, segment) in self.0.iter().enumerate() {
            let dot = if n > 0 { "." } else { "" };
            if is_bare(segment) {
                write!(f, "{dot}{segment}")?;
            } else {
                write!(f, "{dot}{}", Key::new(segment))?;
            }
        }
        Ok(())
    }
}

/// The path of a component, with the name of its FE: `edge1:port.wan.rate`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ElementPath {
    /// Name of the FE.
    pub fe: String,
    /// Path within the FE.
    pub path: ComponentPath,
}

impl ElementPath {
    /// Splits text after the name of an FE and its colon; `None` if the text begins with no such name. A colon in
    /// quotes belongs to the path.
    pub fn split(text: &str) -> (Option<&str>, &str) {
        match text.split_once(':') {
            Some((fe, path)) if is_bare(fe) => (Some(fe), path),
            _ => (None, text),
        }
    }
}

impl FromStr for ElementPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (fe, path) = Self::split(text.trim());
        let missing =
            || format!("`{text}` must name an FE before the path, like edge1:port.wan.rate");
        Ok(Self {
            fe: fe.ok_or_else(missing)?.to_owned(),
            path: path.parse()?,
        })
    }
}

impl fmt::Display for ElementPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.fe, self.path)
    }
}

/// Whether text is a bare key of TOML, as every name of an FE is.
fn is_bare(text: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !text.is_empty() && text.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_prints_as_toml_writes_it() {
        let path = ComponentPath::new(["port", "eth0.100", "rate"]);
        assert_eq!(path.to_string(), "port.\"eth0.100\".rate");
        assert_eq!(path.parent().to_string(), "port.\"eth0.100\"");
        assert!(path.parent().parent().parent().parent().is_root());
    }

    #[test]
    fn a_printed_path_is_read_as_the_same_path() {
        for name in [
            "wan",
            "eth0.100",
            "a:b",
            "a \"b0\"",
            "it's",
            "",
            "a=b",
            "\u{7f}\u{200b}\\",
        ] {
            let path = ComponentPath::new(["port", name, "rate"]);
            let text = path.to_string();
            assert_eq!(text.parse().as_ref(), Ok(&path), "{text}");
            let of_fe = ElementPath {
                fe: "edge1".to_owned(),
                path,
            };
            assert_eq!(of_fe.to_string().parse(), Ok(of_fe), "{text}");
        }
        let wrong = "port wan".parse::<ComponentPath>().unwrap_err();
        assert!(
            wrong.contains("quote a name that contains a dot"),
            "{wrong}"
        );
    }

    #[test]
    fn the_name_of_an_fe_precedes_its_colon() {
        let path = "port.wan.rate";
        assert_eq!(
            ElementPath::split("edge1:port.wan.rate"),
            (Some("edge1"), path)
        );
        for own in [path, "port.\"a:b\".rate", "socket=/run/x:y", ":port"] {
            assert_eq!(ElementPath::split(own), (None, own));
        }
        let wrong = path.parse::<ElementPath>().unwrap_err();
        assert!(wrong.contains("like edge1:port.wan.rate"), "{wrong}");
    }
}
