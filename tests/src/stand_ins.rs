//! Programs that stand in for FFmpeg: slower than it, or held back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fencepost_media::{Overrides, Tools};

/// Writes a shell script that stands in for a program, and gives its path.
pub fn stand_in(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    // Under another name first: a program that is open for writing cannot be started.
    let unfinished = folder.join(format!("{name}.new"));
    std::fs::write(&unfinished, format!("#!/bin/sh\n{script}\n")).expect("it can be written");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&unfinished, mode).expect("it can be made a program");
    std::fs::rename(&unfinished, &path).expect("it can be renamed");
    path
}

/// An FFmpeg that does nothing for as long as a file is there, and then what it is told.
pub struct HeldFfmpeg {
    /// The program to configure.
    pub program: PathBuf,
    flag: PathBuf,
}

impl HeldFfmpeg {
    /// One that is held from the beginning; its files go into `folder`.
    pub async fn in_folder(folder: &Path) -> Self {
        Self::held_at(folder, "*-version*|*-filters*|*-encoders*) ;; *").await
    }

    /// The same for an agent, which first has to show what it can do: only its work is held. It can
    /// transcode, and nothing else.
    pub async fn at_work(folder: &Path) -> Self {
        Self::held_at(folder, "*trial.mkv*) exit 1 ;; *-progress*").await
    }

    /// One that is held where its arguments are like this.
    async fn held_at(folder: &Path, arguments: &str) -> Self {
        let tools = Tools::find(&Overrides::default()).await.expect("FFmpeg");
        let flag = folder.join("held");
        std::fs::write(&flag, "").expect("a file can be made");
        let script = format!(
            r#"case "$*" in
    {arguments}) while [ -e "{flag}" ]; do sleep 0.05; done ;;
esac
exec "{ffmpeg}" "$@""#,
            flag = flag.display(),
            ffmpeg = tools.ffmpeg.display()
        );
        let program = stand_in(folder, "held-ffmpeg", &script);
        Self { program, flag }
    }

    /// Lets it and all later ones do their work.
    pub fn let_go(&self) {
        std::fs::remove_file(&self.flag).expect("it was held");
    }

    /// Its path as a setting.
    pub fn path(&self) -> &str {
        self.program.to_str().expect("a plain path")
    }
}

/// An FFmpeg that transcodes no faster than its film plays, so that there is time to interrupt it.
pub async fn real_time_ffmpeg(folder: &Path) -> PathBuf {
    let tools = Tools::find(&Overrides::default()).await.expect("FFmpeg");
    let script = format!(
        r#"case "$*" in
    *trial.mkv*) exit 1 ;;
    *-progress*) exec "{ffmpeg}" -re "$@" ;;
    *) exec "{ffmpeg}" "$@" ;;
esac"#,
        ffmpeg = tools.ffmpeg.display()
    );
    stand_in(folder, "slow-ffmpeg", &script)
}
