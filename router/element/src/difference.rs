//! How two sets of components differ.

use std::collections::BTreeMap;

/// The differences between two sets of components, one line each.
pub fn differences(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    let line = |path: &String| match (before.get(path), after.get(path)) {
        (Some(old), Some(new)) if old != new => Some(format!("~ {path}: {old} -> {new}")),
        (Some(old), None) => Some(format!("- {path}: {old}")),
        (None, Some(new)) => Some(format!("+ {path}: {new}")),
        _ => None,
    };
    paths.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_what_is_new_gone_and_changed() {
        let map = |pairs: &[(&str, &str)]| {
            let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            pairs.iter().map(own).collect::<BTreeMap<_, _>>()
        };
        let before = map(&[("a", "1"), ("b", "2"), ("c", "3")]);
        let after = map(&[("a", "1"), ("b", "4"), ("d", "5")]);
        let expected = ["~ b: 2 -> 4", "- c: 3", "+ d: 5"];
        assert_eq!(differences(&before, &after), expected);
    }
}
