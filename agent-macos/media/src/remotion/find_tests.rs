//! What is found of Remotion, and what is said of what is not.

use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

fn packages(version: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join(PACKAGE);
    fs::create_dir_all(package.parent().unwrap()).unwrap();
    fs::write(package, format!("{{\"version\":\"{version}\"}}")).unwrap();
    folder
}

fn program(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "#!/bin/sh\n").unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn complaint<T: std::fmt::Debug>(result: Result<T, MediaFailure>) -> String {
    let failure = result.unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::DeviceFault));
    failure.to_string()
}

#[test]
fn a_renderer_of_another_version_is_not_used() {
    assert_eq!(version(packages("4.0.529").path()).unwrap(), "4.0.529");
    let newer = complaint(version(packages("5.0.0").path()));
    assert!(newer.contains("@remotion/renderer@4"), "{newer}");
    let none = complaint(version(tempfile::tempdir().unwrap().path()));
    assert!(none.contains("has no @remotion/renderer"), "{none}");
    assert!(none.contains("npm install --prefix '/"), "{none}");
}

#[test]
fn a_folder_that_is_not_there_is_named_with_what_makes_it() {
    let overrides = RemotionOverrides {
        folder: PathBuf::from("/nowhere/remotion"),
        node: None,
        browser: None,
    };
    let said = complaint(Remotion::find(&overrides));
    let install = "npm install --prefix '/nowhere/remotion' @remotion/renderer@4";
    assert!(said.contains(install), "{said}");
}

#[test]
fn an_old_node_is_refused_by_its_path_and_version() {
    let remotion = Remotion {
        node: PathBuf::from("/opt/node"),
        packages: PathBuf::new(),
        version: "4.0.529".to_owned(),
        browser: PathBuf::new(),
        wall: Wall::Bubblewrap {
            program: PathBuf::new(),
        },
    };
    for answer in ["v18.0.0\n", "v20.20.2\n", "v101.0.0"] {
        assert_eq!(remotion.check_node(answer), Ok(()), "{answer}");
    }
    for (answer, says) in [
        ("v16.20.2\n", "Node 18 or newer, and /opt/node is v16.20.2"),
        ("", "/opt/node does not answer like Node"),
        ("18", "/opt/node does not answer like Node"),
    ] {
        let said = complaint(remotion.check_node(answer));
        assert!(said.contains(says), "{answer}: {said}");
    }
}

#[test]
fn a_browser_that_remotion_fetched_is_found_before_others() {
    let folder = packages("4.0.529");
    let shell = folder
        .path()
        .join(FETCHED)
        .join("mac-arm64/chrome-headless-shell-mac-arm64/chrome-headless-shell");
    program(&shell);
    assert_eq!(browser(None, folder.path()).unwrap(), shell);
}

#[test]
fn what_was_named_must_be_a_program_and_is_repeated_if_it_is_none() {
    let folder = packages("4.0.529");
    let file = folder.path().join(PACKAGE);
    let says = |what| {
        format!(
            "the {what} that was named, {}, is no program",
            file.display()
        )
    };
    let wrong = complaint(node(Some(&file)));
    assert!(wrong.contains(&says("node")), "{wrong}");
    let wrong = complaint(browser(Some(&file), folder.path()));
    assert!(wrong.contains(&says("browser")), "{wrong}");
}
