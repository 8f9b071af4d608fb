//! Finds FFmpeg on this machine.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::child::{self, ChildLimits, ChildSpec, Stdout};
use crate::exit::{not_started, require_success};
use crate::{
    FailureCode, Isolation, MediaFailure, Remotion, RemotionOverrides, Roster, StopSignal,
};

/// Homebrew's own `ffmpeg` cannot draw captions; its `ffmpeg-full` can, and lives in a folder that no
/// PATH names. Who has installed that wants it.
const FULL_FOLDERS: &[&str] = &[
    "/opt/homebrew/opt/ffmpeg-full/bin",
    "/usr/local/opt/ffmpeg-full/bin",
];
/// Where Homebrew, MacPorts and Linux keep programs: an agent that launchd starts has no such PATH.
const USUAL_FOLDERS: &[&str] = &[
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/opt/local/bin",
    "/usr/bin",
];
/// The oldest version that knows every option we use.
const OLDEST: (u32, u32) = (5, 1);
const ANSWER_TIME: Duration = Duration::from_secs(15);

/// Programs named by the operator. What is left out is searched for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Path of `ffmpeg`.
    pub ffmpeg: Option<PathBuf>,
    /// Path of `ffprobe`.
    pub ffprobe: Option<PathBuf>,
    /// What renders Remotion bundles, which are run only where somebody asked for that.
    pub remotion: Option<RemotionOverrides>,
}

/// The FFmpeg of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// Absolute path of `ffmpeg`.
    pub ffmpeg: PathBuf,
    /// Absolute path of `ffprobe`.
    pub ffprobe: PathBuf,
    /// What `ffmpeg` calls its version.
    pub version: String,
    /// How children are kept from the network.
    pub isolation: Isolation,
    /// Where running children are entered, for programs that may be killed while others must not
    /// inherit their encoders; none unless set.
    pub roster: Option<Roster>,
    /// What renders Remotion bundles; none unless asked for.
    pub remotion: Option<Remotion>,
    /// Whether it can turn HDR pictures into ordinary ones (filters `zscale` and `tonemap`).
    pub tone_maps: bool,
}

impl Tools {
    /// Finds the programs and asks for their versions. `device_fault` if one is missing, not executable
    /// or too old (FFmpeg 5.1, Node 18); the message says what to install.
    pub async fn find(overrides: &Overrides) -> Result<Self, MediaFailure> {
        let folders = search_folders();
        let ffmpeg = locate("ffmpeg", overrides.ffmpeg.as_deref(), &folders)?;
        // The pair that was built together, if there is one.
        let siblings: Vec<PathBuf> = ffmpeg
            .parent()
            .map(Path::to_owned)
            .into_iter()
            .chain(folders)
            .collect();
        let ffprobe = locate("ffprobe", overrides.ffprobe.as_deref(), &siblings)?;
        let isolation = Isolation::detect().await;
        let version = version(&ask("ffmpeg", &ffmpeg, &["-version"]).await?)?;
        let filters = ask("ffmpeg", &ffmpeg, &["-hide_banner", "-filters"]).await?;
        let has_filter = |name| {
            filters
                .lines()
                .any(|l| l.split_whitespace().nth(1) == Some(name))
        };
        let tone_maps = has_filter("zscale") && has_filter("tonemap");
        let remotion = overrides
            .remotion
            .as_ref()
            .map(Remotion::find)
            .transpose()?;
        if let Some(remotion) = &remotion {
            remotion.check_node(&ask("node", &remotion.node, &["--version"]).await?)?;
        }
        Ok(Self {
            ffmpeg,
            ffprobe,
            version,
            isolation,
            roster: None,
            remotion,
            tone_maps,
        })
    }
}

pub(crate) fn search_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let [full, usual] = [FULL_FOLDERS, USUAL_FOLDERS].map(|list| list.iter().map(PathBuf::from));
    full.chain(in_path).chain(usual).collect()
}

fn locate(name: &str, named: Option<&Path>, folders: &[PathBuf]) -> Result<PathBuf, MediaFailure> {
    let missing = |message| MediaFailure::new(FailureCode::DeviceFault, message);
    if let Some(path) = named {
        return configured(name, path);
    }
    folders
        .iter()
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
        .ok_or_else(|| {
            missing(format!(
                "{name} is not installed: `brew install ffmpeg-full` on macOS, `apt install ffmpeg` on \
             Debian and Ubuntu"
            ))
        })
}

/// The absolute path of a program that was named.
pub(crate) fn configured(name: &str, path: &Path) -> Result<PathBuf, MediaFailure> {
    let absolute = std::path::absolute(path)
        .ok()
        .filter(|path| is_program(path));
    absolute.ok_or_else(|| {
        let path = path.display();
        let message = format!(
            "the {name} that was named, {path}, is no program: name another one, or none for one that is \
             found"
        );
        MediaFailure::new(FailureCode::DeviceFault, message)
    })
}

pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

async fn ask(name: &str, program: &Path, args: &[&str]) -> Result<String, MediaFailure> {
    let spec = ChildSpec {
        program,
        args: args.iter().map(OsString::from).collect(),
        folder: Path::new("/"),
        limits: ChildLimits {
            run_time: ANSWER_TIME,
            start: None,
            no_progress: None,
            file_bytes: None,
            memory_bytes: None,
        },
        isolation: &Isolation::None {
            reason: "it only prints".to_owned(),
        },
        // It ends by itself, also without us.
        roster: None,
    };
    let finished = child::run(spec, Stdout::Keep(1 << 20), &StopSignal::new())
        .await
        .map_err(|error| not_started(name, &error))?;
    let does_not_work = |failure| match failure {
        MediaFailure::Failed { message, .. } => {
            MediaFailure::new(FailureCode::DeviceFault, message)
        }
        MediaFailure::Stopped => MediaFailure::Stopped,
    };
    require_success(name, &finished, Path::new("/")).map_err(does_not_work)?;
    Ok(String::from_utf8_lossy(&finished.stdout).into_owned())
}

/// The word after `ffmpeg version`, if it is not known to be too old.
fn version(answer: &str) -> Result<String, MediaFailure> {
    let fault = |message| MediaFailure::new(FailureCode::DeviceFault, message);
    let word = answer
        .strip_prefix("ffmpeg version ")
        .and_then(|rest| rest.split_whitespace().next())
        .ok_or_else(|| fault("the ffmpeg found does not answer like FFmpeg".to_owned()))?;
    match numbered(word) {
        Some(number) if number < OLDEST => Err(fault(format!(
            "FFmpeg {word} is too old: {}.{} or newer is needed",
            OLDEST.0, OLDEST.1
        ))),
        // Builds from a repository are called `N-12345-g…` or by a date; they are new enough.
        Some(_) | None => Ok(word.to_owned()),
    }
}

fn numbered(word: &str) -> Option<(u32, u32)> {
    let mut parts = word
        .trim_start_matches('n')
        .split(|c: char| !c.is_ascii_digit());
    let major = parts.next()?.parse().ok()?;
    Some((
        major,
        parts
            .next()
            .and_then(|minor| minor.parse().ok())
            .unwrap_or(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_kinds_of_builds_are_read() {
        for (answer, expected) in [
            (
                "ffmpeg version 5.1.9-0+deb12u1 Copyright",
                "5.1.9-0+deb12u1",
            ),
            ("ffmpeg version n6.0 Copyright", "n6.0"),
            ("ffmpeg version 8.0 Copyright", "8.0"),
            (
                "ffmpeg version N-113007-g8d24a28d06 Copyright",
                "N-113007-g8d24a28d06",
            ),
            (
                "ffmpeg version 2024-01-01-git-e1c1dc8347 Copyright",
                "2024-01-01-git-e1c1dc8347",
            ),
        ] {
            assert_eq!(version(answer).unwrap(), expected);
        }
    }

    #[test]
    fn a_version_without_the_options_we_use_is_refused() {
        let failure = version("ffmpeg version 4.4.2-0ubuntu0.22.04.1 Copyright").unwrap_err();
        assert_eq!(failure.code(), Some(FailureCode::DeviceFault));
        assert!(version("hello").is_err());
    }
}
