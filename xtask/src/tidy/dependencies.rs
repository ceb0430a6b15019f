//! Permitted dependencies between crates: every dependency must be permitted, and every permission must be used.

use crate::tree::{Tree, has_word};

/// The crates of this workspace that a crate may depend on. A dependency that is not listed is forbidden.
pub(super) const EDGES: &[(&str, &[&str])] = &[
    ("base", &[]),
    ("data/wire", &[]),
    ("data/packet", &["base"]),
    ("data/discipline", &["base", "packet"]),
    ("data/path", &["base", "wire", "packet", "discipline"]),
    ("data/capture", &["base", "packet"]),
    ("data/classifier", &["base", "wire", "packet"]),
    ("control/model", &["base"]),
    ("control/config", &["base", "model"]),
    ("control/controller", &["base"]),
    ("control/forces", &["base", "model"]),
    (
        "control/fe",
        &["base", "wire", "path", "model", "lfb", "forces"],
    ),
    (
        "control/ce",
        &[
            "base",
            "controller",
            "wire",
            "packet",
            "path",
            "model",
            "lfb",
            "forces",
            "element",
        ],
    ),
    (
        "control/channel",
        &["base", "packet", "discipline", "path", "forces"],
    ),
    ("control/element", &["base", "model", "lfb", "path"]),
    (
        "control/lfb",
        &[
            "base",
            "controller",
            "model",
            "wire",
            "packet",
            "discipline",
            "classifier",
            "path",
            "forces",
        ],
    ),
    (
        "habitats/live",
        &[
            "base",
            "wire",
            "packet",
            "discipline",
            "path",
            "capture",
            "classifier",
            "controller",
            "model",
            "lfb",
            "element",
            "fe",
            "forces",
            "ce",
            "channel",
        ],
    ),
    (
        "habitats/sim",
        &["base", "wire", "packet", "discipline", "path", "capture"],
    ),
    ("northbound", &["model"]),
    (
        "lab",
        &[
            "base",
            "wire",
            "packet",
            "benches",
            "discipline",
            "path",
            "channel",
            "controller",
            "forces",
            "ce",
            "live",
            "sim",
            "model",
            "northbound",
        ],
    ),
    (
        "benches",
        &[
            "base",
            "wire",
            "packet",
            "discipline",
            "path",
            "capture",
            "classifier",
            "live",
            "sim",
        ],
    ),
    (
        "bin/weir",
        &[
            "base",
            "packet",
            "discipline",
            "path",
            "capture",
            "classifier",
            "model",
            "config",
            "controller",
            "element",
            "fe",
            "forces",
            "lfb",
            "live",
            "northbound",
            "ce",
            "forces",
            "lab",
            "benches",
        ],
    ),
    ("xtask", &[]),
    (
        "fuzz/targets",
        &[
            "base",
            "capture",
            "ce",
            "classifier",
            "config",
            "controller",
            "discipline",
            "forces",
            "lab",
            "lfb",
            "live",
            "model",
            "northbound",
            "packet",
            "path",
            "wire",
        ],
    ),
];

/// The manifest tables that name dependencies, each with the sources that may use them.
const TABLES: &[(&str, &[&str])] = &[
    ("dependencies", &["src"]),
    ("dev-dependencies", &["src", "tests", "examples", "benches"]),
    ("build-dependencies", &["build.rs"]),
];

pub(super) fn check(tree: &Tree, faults: &mut Vec<String>) {
    check_with(tree, EDGES, faults);
    workspace(tree, EDGES, faults);
}

fn check_with(tree: &Tree, edges: &[(&str, &[&str])], faults: &mut Vec<String>) {
    for (folder, permitted) in edges {
        let Some(manifest) = manifest(tree, &format!("{folder}/Cargo.toml")) else {
            faults.push(format!("{folder}/Cargo.toml is missing, or is not TOML"));
            continue;
        };
        // Dependencies of tests are not restricted.
        let used = names(&manifest, "dependencies");
        let ours: Vec<&str> = used
            .iter()
            .filter_map(|d| d.strip_prefix("weir-"))
            .collect();
        for dependency in ours.iter().filter(|d| !permitted.contains(d)) {
            faults.push(format!("{folder} must not depend on {dependency}"));
        }
        for dependency in permitted.iter().filter(|d| !ours.contains(d)) {
            faults.push(format!(
                "{folder} may depend on {dependency} and does not: remove the permission in xtask"
            ));
        }
        for (table, places) in TABLES {
            for dependency in names(&manifest, table) {
                if !is_used(tree, folder, places, &dependency) {
                    faults.push(format!(
                        "{folder}/Cargo.toml: no source uses {dependency} of [{table}]"
                    ));
                }
            }
        }
    }
}

/// Every dependency in the workspace's manifest is used by a crate.
fn workspace(tree: &Tree, edges: &[(&str, &[&str])], faults: &mut Vec<String>) {
    let offered = manifest(tree, "Cargo.toml");
    let offered = offered.and_then(|m| m.get("workspace")?.as_table().cloned());
    let manifests = edges.iter();
    let manifests = manifests.filter_map(|(f, _)| manifest(tree, &format!("{f}/Cargo.toml")));
    let taken: Vec<String> = manifests
        .flat_map(|m| TABLES.iter().flat_map(move |(table, _)| names(&m, table)))
        .collect();
    for dependency in offered.iter().flat_map(|m| names(m, "dependencies")) {
        if !taken.contains(&dependency) {
            faults.push(format!("Cargo.toml: no crate uses {dependency}"));
        }
    }
}

fn manifest(tree: &Tree, path: &str) -> Option<toml::Table> {
    tree.text(path)?.parse().ok()
}

fn names(manifest: &toml::Table, table: &str) -> Vec<String> {
    let table = manifest.get(table).and_then(|t| t.as_table());
    table.map_or(Vec::new(), |t| t.keys().cloned().collect())
}

fn is_used(tree: &Tree, folder: &str, places: &[&str], dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    places.iter().any(|place| {
        let place = format!("{folder}/{place}");
        let inside = tree.below(&place, ".rs").map(|(_, text)| text);
        let itself = tree.text(&place);
        inside.chain(itself).any(|text| {
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            code.into_iter().any(|line| has_word(line, &name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_and_dependencies_without_use_are_found() {
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\ntoml = \"1\"\nwhy-not = \"2\"\n",
            ),
            (
                "lab/Cargo.toml",
                "[dependencies]\nweir-base = \"0\"\nweir-live = \"0\"\ntoml = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n",
            ),
            (
                "lab/src/lib.rs",
                "use weir_base::Time;\nuse weir_live;\n// toml\n",
            ),
            ("lab/tests/all.rs", "use proptest::prelude::*;\n"),
        ]);
        let edges: &[(&str, &[&str])] = &[("lab", &["base", "wire"])];
        let mut faults = Vec::new();
        check_with(&tree, edges, &mut faults);
        workspace(&tree, edges, &mut faults);
        let expected = [
            "lab must not depend on live",
            "lab may depend on wire and does not: remove the permission in xtask",
            "lab/Cargo.toml: no source uses toml of [dependencies]",
            "Cargo.toml: no crate uses why-not",
        ];
        assert_eq!(faults, expected);
    }
}
