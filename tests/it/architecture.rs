//! The arrows between the crates, read from cargo itself: the folder tree is the architecture.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// Who may depend on whom among our own crates; those under `tests/` may on all.
const ARROWS: [(&str, &[&str]); 10] = [
    ("fencepost-domain", &[]),
    ("fencepost-egress", &[]),
    ("fencepost-embedded", &[]),
    ("fencepost-media", &["fencepost-domain"]),
    ("fencepost-model", &["fencepost-domain"]),
    ("fencepost-protocol", &["fencepost-domain"]),
    ("fencepost-store", &["fencepost-domain"]),
    (
        "fencepost-agent",
        &[
            "fencepost-domain",
            "fencepost-egress",
            "fencepost-media",
            "fencepost-protocol",
        ],
    ),
    (
        "fencepost-actors",
        &[
            "fencepost-domain",
            "fencepost-egress",
            "fencepost-media",
            "fencepost-protocol",
            "fencepost-store",
        ],
    ),
    (
        "fencepost-gateway",
        &[
            "fencepost-actors",
            "fencepost-domain",
            "fencepost-egress",
            "fencepost-embedded",
            "fencepost-media",
            "fencepost-protocol",
            "fencepost-store",
        ],
    ),
];

fn packages() -> Vec<Package> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(manifest)
        .no_deps()
        .exec()
        .expect("cargo knows the workspace");
    // The tests' own crates are not part of the product.
    let tests = metadata.workspace_root.join("tests");
    let packages = metadata.packages.into_iter();
    packages
        .filter(|package| !package.manifest_path.starts_with(&tests))
        .collect()
}

fn dependencies(package: &Package) -> BTreeSet<&str> {
    let normal = package
        .dependencies
        .iter()
        .filter(|one| one.kind != DependencyKind::Development);
    normal.map(|dependency| dependency.name.as_str()).collect()
}

#[test]
fn the_arrows_between_our_crates_are_those_of_the_drawing() {
    let allowed: BTreeMap<_, _> = ARROWS.into_iter().collect();
    let mut seen = BTreeSet::new();
    for package in packages() {
        let name = package.name.as_str();
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the drawing"));
        let ours = dependencies(&package)
            .into_iter()
            .filter(|name| name.starts_with("fencepost-"));
        for dependency in ours {
            assert!(
                allowed.contains(&dependency),
                "{name} depends on {dependency}"
            );
        }
        seen.insert(name.to_owned());
    }
    assert_eq!(
        seen.len(),
        ARROWS.len(),
        "the drawing shows what is not there: {seen:?}"
    );
}

#[test]
fn the_rules_have_no_runtime_no_database_and_no_network() {
    let packages = packages();
    let find = |name: &str| {
        packages
            .iter()
            .find(|package| package.name.as_str() == name)
            .unwrap()
    };
    let forbidden = |name: &str, words: &[&str]| {
        for dependency in dependencies(find(name)) {
            let is_bad = words.iter().any(|word| dependency.starts_with(word));
            assert!(!is_bad, "{name} depends on {dependency}");
        }
    };
    let runtime = [
        "tokio",
        "sqlx",
        "actix",
        "reqwest",
        "object_store",
        "rand",
        "async",
    ];
    forbidden("fencepost-domain", &runtime);
    forbidden("fencepost-model", &runtime);
    forbidden("fencepost-protocol", &runtime);
    forbidden("fencepost-agent", &["sqlx", "actix", "object_store"]);
    forbidden(
        "fencepost-media",
        &["sqlx", "actix", "object_store", "reqwest"],
    );
    forbidden("fencepost-store", &["actix", "reqwest"]);
    forbidden(
        "fencepost-actors",
        &["sqlx", "actix-web", "reqwest", "object_store"],
    );
    forbidden("fencepost-gateway", &["sqlx"]);
}

#[test]
fn the_switch_that_opens_half_of_the_fence_is_off_in_every_program() {
    for package in packages() {
        for dependency in &package.dependencies {
            let is_on = dependency.kind != DependencyKind::Development
                && dependency
                    .features
                    .iter()
                    .any(|feature| feature == "testing");
            assert!(
                !is_on,
                "{} opens the fence of {}",
                package.name, dependency.name
            );
        }
        let default = package.features.get("default");
        let by_default = default.is_some_and(|on| on.iter().any(|feature| feature == "testing"));
        assert!(!by_default, "{} opens its fence by default", package.name);
    }
}
