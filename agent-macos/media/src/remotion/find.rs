//! Finds what renders bundles: Node, Remotion's renderer, a browser, and a wall around them.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Remotion, RemotionOverrides, Wall};
use crate::tools::{configured, is_program, search_folders};
use crate::{FailureCode, MediaFailure};

/// Where browsers are that no PATH names.
const BROWSERS: &[&str] = &[
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
];
/// Where the renderer's `ensureBrowser()` puts one, within the folder of the packages. (`npx remotion`
/// belongs to another package.)
const FETCHED: &str = "node_modules/.remotion/chrome-headless-shell";
/// The oldest major version of Node that Remotion is run with.
const OLDEST_NODE: u32 = 18;
const PACKAGE: &str = "node_modules/@remotion/renderer/package.json";

impl Remotion {
    /// Finds everything. `device_fault` if something is missing; the message says
    /// what to do.
    pub fn find(overrides: &RemotionOverrides) -> Result<Self, MediaFailure> {
        let packages = overrides.folder.canonicalize().map_err(|error| {
            let folder = overrides.folder.display();
            fault(format!(
                "the folder for Remotion, {folder}, cannot be opened ({error}): {}",
                install_in(&overrides.folder)
            ))
        })?;
        Ok(Self {
            node: node(overrides.node.as_deref())?,
            version: version(&packages)?,
            browser: browser(overrides.browser.as_deref(), &packages)?,
            packages,
            wall: Wall::detect().map_err(fault)?,
        })
    }

    /// Whether what `node --version` answers is new enough.
    pub(crate) fn check_node(&self, answer: &str) -> Result<(), MediaFailure> {
        let (node, answer) = (self.node.display(), answer.trim());
        let number = answer
            .strip_prefix('v')
            .and_then(|word| word.split('.').next());
        match number.and_then(|number| number.parse::<u32>().ok()) {
            Some(number) if number >= OLDEST_NODE => Ok(()),
            Some(_) => Err(fault(format!(
                "Remotion needs Node {OLDEST_NODE} or newer, and {node} is {answer}: install a newer one \
                 (`brew install node` on macOS), or name another one"
            ))),
            None => Err(fault(format!(
                "{node} does not answer like Node: name another one"
            ))),
        }
    }

    /// What must be readable where it runs, beside what is the system's.
    pub(super) fn readable(&self) -> [PathBuf; 3] {
        [
            self.packages.clone(),
            around(&self.node),
            around(&self.browser),
        ]
    }

    /// What Remotion calls this kind of browser.
    pub(super) fn mode(&self) -> &'static str {
        let name = self.browser.file_name().unwrap_or_default();
        match name.to_string_lossy().replace('_', "-") {
            name if name.contains("headless-shell") => "headless-shell",
            _ => "chrome-for-testing",
        }
    }
}

/// The folder of a program with what belongs to it: an app, or what is beside its `bin`.
fn around(program: &Path) -> PathBuf {
    let program = program
        .canonicalize()
        .unwrap_or_else(|_| program.to_owned());
    let is_app = |path: &&Path| path.extension().is_some_and(|found| found == "app");
    if let Some(app) = program.ancestors().find(is_app) {
        return app.to_owned();
    }
    let folder = program.parent().unwrap_or(&program);
    match (folder.file_name(), folder.parent()) {
        (Some(name), Some(parent)) if name == "bin" => parent.to_owned(),
        _ => folder.to_owned(),
    }
}

fn fault(message: String) -> MediaFailure {
    MediaFailure::new(FailureCode::DeviceFault, message)
}

fn node(named: Option<&Path>) -> Result<PathBuf, MediaFailure> {
    if let Some(path) = named {
        return configured("node", path);
    }
    let places = search_folders()
        .into_iter()
        .map(|folder| folder.join("node"));
    places.into_iter().find(|path| is_program(path)).ok_or_else(|| {
        fault(
            "Remotion needs Node, which is not installed: `brew install node` on macOS, `apt install \
             nodejs` on Debian and Ubuntu"
                .to_owned(),
        )
    })
}

fn browser(named: Option<&Path>, packages: &Path) -> Result<PathBuf, MediaFailure> {
    if let Some(path) = named {
        return configured("browser", path);
    }
    let usual = BROWSERS.iter().map(PathBuf::from);
    let mut places = fetched(packages).into_iter().chain(usual);
    places.find(|path| is_program(path)).ok_or_else(|| {
        fault(
            "Remotion needs a browser, and none was found: install Chrome or Chromium, or run `node \
             -e \"require('@remotion/renderer').ensureBrowser()\"` in the folder for Remotion"
                .to_owned(),
        )
    })
}

/// `PLATFORM/chrome-headless-shell-PLATFORM/chrome-headless-shell`, whatever the platform is called.
fn fetched(packages: &Path) -> Option<PathBuf> {
    let platforms = std::fs::read_dir(packages.join(FETCHED)).ok()?;
    let inner = platforms.flatten().map(|platform| {
        let name = platform.file_name().to_string_lossy().into_owned();
        let folder = format!("chrome-headless-shell-{name}");
        let program = platform.path().join(folder).join("chrome-headless-shell");
        // Older ones are called otherwise.
        [program.with_file_name("headless_shell"), program]
    });
    inner.flatten().find(|path| is_program(path))
}

#[derive(Deserialize)]
struct Package {
    version: String,
}

/// What makes a folder one for Remotion.
fn install_in(folder: &Path) -> String {
    let folder = folder.display();
    format!("run `npm install --prefix '{folder}' @remotion/renderer@4`")
}

/// The renderer's version, which must be a 4: what the script calls is of that one.
fn version(packages: &Path) -> Result<String, MediaFailure> {
    let install = install_in(packages);
    let text = std::fs::read(packages.join(PACKAGE));
    let text = text.map_err(|error| {
        fault(format!(
            "the folder for Remotion, {}, has no @remotion/renderer ({error}): {install}",
            packages.display()
        ))
    })?;
    let package: Result<Package, _> = serde_json::from_slice(&text);
    let version = package
        .map_err(|error| {
            fault(format!(
                "@remotion/renderer is damaged ({error}): {install}"
            ))
        })?
        .version;
    if version.split('.').next() != Some("4") {
        let problem = format!("@remotion/renderer {version} is not known here: {install}");
        return Err(fault(problem));
    }
    Ok(version)
}

#[cfg(test)]
#[path = "find_tests.rs"]
mod tests;
