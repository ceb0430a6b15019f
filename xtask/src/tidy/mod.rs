//! The rules of ARCHITECTURE.md and CONTRIBUTING.md that a program can check, one file per kind of rule.

mod dependencies;
mod links;
mod patterns;
mod rooms;
mod source;
mod unused;
mod words;

use std::path::Path;

use crate::tree::Tree;

/// Every violation, one sentence each.
pub(crate) fn check(root: &Path) -> Vec<String> {
    let tree = match Tree::read(root) {
        Ok(tree) => tree,
        Err(error) => return vec![format!("{}: {error}", root.display())],
    };
    let crates: Vec<&str> = tree.crates().collect();
    let mut faults = Vec::new();
    dependencies::check(&tree, &crates, &mut faults);
    source::check(&tree, &crates, &mut faults);
    rooms::check(&tree, &crates, &mut faults);
    unused::check(&tree, &mut faults);
    links::check(&tree, &mut faults);
    words::check(&tree, &mut faults);
    patterns::check(&tree, &mut faults);
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        assert_eq!(check(root), Vec::<String>::new());
    }
}
