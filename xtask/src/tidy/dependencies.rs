//! Checks that dependencies between crates are permitted, by their folders, and that every dependency is used.

use std::collections::BTreeMap;

use toml_edit::{DocumentMut, Item, TableLike};

use crate::tree::{Tree, folder as parent, has_word, resolved};

/// The folders whose crates the crates of a folder may depend on. The longest folder that contains a crate decides.
const LAYERS: &[(&str, &[&str])] = &[
    ("core/base", &[]),
    ("core/wire", &[]),
    ("core/packet", &["core/base"]),
    ("core/discipline", &["core/base", "core/packet"]),
    ("core/capture", &["core/base", "core/packet"]),
    (
        "core/classifier",
        &["core/base", "core/wire", "core/packet"],
    ),
    (
        "core/path",
        &["core/base", "core/wire", "core/packet", "core/discipline"],
    ),
    ("fpf/path", &["core"]),
    ("router/model", &["core/base"]),
    ("router/layer", &["core", "router/model"]),
    (
        "fpf/lfb",
        &["core", "fpf/path", "router/model", "router/layer"],
    ),
    ("router/config", &["core/base", "router/model"]),
    ("router/autorate", &["core/base"]),
    ("router/controller", &["core/base"]),
    (
        "router/lfb",
        &[
            "core",
            "fpf/lfb",
            "router/model",
            "router/layer",
            "router/autorate",
        ],
    ),
    (
        "router/element",
        &["core", "router/model", "router/layer", "router/lfb"],
    ),
    ("router/northbound", &["router/model"]),
    ("router/live", &["core", "router"]),
    ("fpf/paths", &["core/base"]),
    (
        "fpf/network",
        &["core", "router/model", "router/lfb", "fpf"],
    ),
    ("forces/protocol", &["core/base", "router/model"]),
    ("forces/channel", &["core", "forces/protocol"]),
    (
        "forces/library",
        &["core", "router/model", "router/lfb", "forces/protocol"],
    ),
    ("forces/fe", OF_ELEMENTS),
    ("forces/ce", OF_ELEMENTS),
    ("forces/live", &["core", "router", "fpf", "forces"]),
    ("forces/lab", &["core", "router/live", "forces", "lab"]),
    ("lab/sim", &["core"]),
    ("lab/bench", &["core", "router/live", "lab/sim"]),
    ("fpf/lab", &["core", "router", "fpf", "lab"]),
    ("lab", &["core", "router", "lab"]),
    ("bin/weir", &["core", "router"]),
    (
        "bin",
        &["core", "router", "fpf", "forces", "lab", "bin/weir"],
    ),
    ("fuzz", &["core", "router", "fpf", "forces", "lab"]),
    ("xtask", &[]),
];

/// The folders that state machines of forwarding and control elements may use: no habitat.
const OF_ELEMENTS: &[&str] = &[
    "core",
    "router/model",
    "router/controller",
    "router/lfb",
    "router/element",
    "fpf",
    "forces/protocol",
    "forces/library",
];

/// The manifest tables that name dependencies, each with the sources that may use them.
const TABLES: &[(&str, &[&str])] = &[
    ("dependencies", &["src"]),
    ("dev-dependencies", &["src", "tests", "examples", "benches"]),
    ("build-dependencies", &["build.rs"]),
];

pub(super) fn check(tree: &Tree, crates: &[&str], faults: &mut Vec<String>) {
    check_with(tree, crates, LAYERS, faults);
    workspace(tree, crates, faults);
}

fn check_with(tree: &Tree, crates: &[&str], layers: &[(&str, &[&str])], faults: &mut Vec<String>) {
    let folders = folders(tree);
    for folder in crates {
        let Some(manifest) = manifest(tree, &format!("{folder}/Cargo.toml")) else {
            faults.push(format!("{folder}/Cargo.toml is missing, or is not TOML"));
            continue;
        };
        let around = layers.iter().filter(|(layer, _)| is_inside(folder, layer));
        let layer = around.max_by_key(|(layer, _)| layer.len());
        let permitted = layer.map_or(&[][..], |(_, permitted)| permitted);
        // Dependencies of tests are not restricted.
        for dependency in names(&manifest, "dependencies") {
            let used = folders.get(&dependency);
            if used.is_some_and(|used| !permitted.iter().any(|layer| is_inside(used, layer))) {
                faults.push(format!("{folder} must not depend on {dependency}"));
            }
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

fn is_inside(folder: &str, layer: &str) -> bool {
    let rest = folder.strip_prefix(layer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The folder of each crate of the workspace, by its name.
fn folders(tree: &Tree) -> BTreeMap<String, String> {
    let workspace = manifest(tree, "Cargo.toml");
    let offered = workspace
        .as_ref()
        .and_then(|m| m.get("workspace")?.get("dependencies")?.as_table_like());
    let path = |(name, value): (&str, &Item)| {
        Some((name.to_owned(), value.get("path")?.as_str()?.to_owned()))
    };
    let entries = offered.into_iter().flat_map(TableLike::iter);
    entries.filter_map(path).collect()
}

/// Checks that a crate uses every dependency in the workspace's manifest.
fn workspace(tree: &Tree, crates: &[&str], faults: &mut Vec<String>) {
    let offered = manifest(tree, "Cargo.toml");
    let offered = offered.as_ref().and_then(|m| m.get("workspace"));
    let manifests = crates.iter();
    let manifests = manifests.filter_map(|folder| manifest(tree, &format!("{folder}/Cargo.toml")));
    let taken: Vec<String> = manifests
        .flat_map(|m| TABLES.iter().flat_map(move |(table, _)| names(&m, table)))
        .collect();
    for dependency in offered.iter().flat_map(|m| names(m, "dependencies")) {
        if !taken.contains(&dependency) {
            faults.push(format!("Cargo.toml: no crate uses {dependency}"));
        }
    }
}

fn manifest(tree: &Tree, path: &str) -> Option<Item> {
    let manifest: DocumentMut = tree.text(path)?.parse().ok()?;
    Some(manifest.into_item())
}

fn names(manifest: &Item, table: &str) -> Vec<String> {
    let table = manifest.get(table).and_then(Item::as_table_like);
    let entries = table.into_iter().flat_map(TableLike::iter);
    entries.map(|(name, _)| name.to_owned()).collect()
}

fn is_used(tree: &Tree, folder: &str, places: &[&str], dependency: &str) -> bool {
    let name = dependency.replace('-', "_");
    places.iter().any(|place| {
        let place = format!("{folder}/{place}");
        let inside = tree.below(&place, ".rs");
        let itself = tree.text(&place).map(|text| (&*place, text));
        // A file of another crate's tests may be a module here.
        let borrowed = tree.below(&place, ".rs").flat_map(|(path, text)| {
            let paths = text
                .lines()
                .filter_map(|line| line.strip_prefix("#[path = \""));
            let files = paths.filter_map(|rest| rest.split('"').next());
            files.filter_map(move |file| tree.text(&resolved(&format!("{}/{file}", parent(path)))))
        });
        let texts = inside.chain(itself).map(|(_, text)| text);
        texts.chain(borrowed).any(|text| {
            let code = text.lines().filter(|l| !l.trim_start().starts_with("//"));
            code.into_iter().any(|line| has_word(line, &name))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_and_unused_dependencies_are_found() {
        let tree = Tree::of(&[
            (
                "Cargo.toml",
                "[workspace.dependencies]\ntoml = \"1\"\nwhy-not = \"2\"\nbase = { path = \"core/base\" }\n\
                 live = { path = \"router/live\" }\n",
            ),
            (
                "core/path/Cargo.toml",
                "[dependencies]\nbase = \"0\"\nlive = \"0\"\ntoml = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n",
            ),
            (
                "core/path/src/lib.rs",
                "use base::Time;\nuse live;\n// toml\n",
            ),
            ("core/path/tests/all.rs", "use proptest::prelude::*;\n"),
        ]);
        let mut faults = Vec::new();
        let crates = ["core/path"];
        check_with(
            &tree,
            &crates,
            &[("core", &["core"]), ("core/path/x", &["router"])],
            &mut faults,
        );
        workspace(&tree, &crates, &mut faults);
        let expected = [
            "core/path must not depend on live",
            "core/path/Cargo.toml: no source uses toml of [dependencies]",
            "Cargo.toml: no crate uses why-not",
        ];
        assert_eq!(faults, expected);
    }
}
