//! The path of a component in a configuration.

use std::fmt;

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
        let mut segments = self.0.clone();
        segments.push(segment.to_owned());
        Self(segments)
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

impl fmt::Display for ComponentPath {
    /// As in TOML: a segment that is not a bare key is quoted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, segment) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str(".")?;
            }
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if !segment.is_empty() && segment.chars().all(bare) {
                f.write_str(segment)?;
            } else {
                write!(f, "{segment:?}")?;
            }
        }
        Ok(())
    }
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
}
