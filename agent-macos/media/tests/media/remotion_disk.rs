//! A renderer on a full disk, and one that closes folders to us. Both need a process of their own: with a
//! small disk, or without root's right to open whatever is closed.

use std::path::PathBuf;
use std::process::Command;

use fencepost_media::FailureCode;

use crate::remotion_limits::{OPENED, assert_failed, inspect, studio};

const INSIDE: &str = "FENCEPOST_TEST_INSIDE";
/// Mounts a disk of 16 MiB for temporary files.
const SMALL_DISK: &str = "mount -t tmpfs -o size=16m tmpfs \"$TMPDIR\" || exit 93; exec \"$@\"";

/// Whether this is the second process, which the words before it start; else runs it and judges its end.
fn is_inside(before: &[&str], test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let temp = tempfile::tempdir().unwrap();
    let output = Command::new(before[0])
        .args(&before[1..])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .env("TMPDIR", temp.path())
        .output();
    let (well, said) = match &output {
        Ok(output) => {
            let text = [output.stdout.as_slice(), &output.stderr].concat();
            let text = String::from_utf8_lossy(&text).into_owned();
            (output.status.success(), text)
        }
        Err(error) => (false, error.to_string()),
    };
    if said.contains("running 1 test") {
        assert!(well && said.contains("1 passed"), "{said}");
    } else {
        assert!(std::env::var_os("CI").is_none(), "not in CI: {said}");
        println!("NOT RUN: this machine does not permit it: {said}");
    }
    false
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn a_bundle_that_fails_on_a_full_disk_is_tried_elsewhere_whatever_is_said() {
    let flags = if is_root() { "-m" } else { "-Urm" };
    let test =
        "remotion_disk::a_bundle_that_fails_on_a_full_disk_is_tried_elsewhere_whatever_is_said";
    if !is_inside(&["unshare", flags, "/bin/sh", "-c", SMALL_DISK, "sh"], test) {
        return;
    }
    let failed =
        r#"echo '{"failed":{"place":"bundle","message":"FFmpeg quit","ours":false}}'; exit 1"#;
    let full = studio(&format!("{OPENED}\ncat /dev/zero > zeros\n{failed}")).await;
    let says = ["No space left on device", "FFmpeg quit"];
    assert_failed(inspect(&full).await, FailureCode::DeviceFault, &says);
    drop(full);
    // The same with room.
    let roomy = studio(&format!("{OPENED}\n{failed}")).await;
    assert_failed(
        inspect(&roomy).await,
        FailureCode::InputInvalid,
        &["FFmpeg quit"],
    );
}

#[tokio::test]
async fn folders_that_were_closed_to_us_are_removed() {
    let test = "remotion_disk::folders_that_were_closed_to_us_are_removed";
    let rights = "--bounding-set=-dac_override,-dac_read_search";
    if is_root() && !is_inside(&["setpriv", rights], test) {
        return;
    }
    let close =
        "mkdir -p a/b/c && touch a/b/c/d && ln -s \"$LEFT/kept\" a/b/link && chmod 0 a/b/c a/b a";
    let kit = studio(&format!("{OPENED}\n{close}\nexit 1")).await;
    let kept = kit.source("kept");
    std::fs::create_dir(&kept).unwrap();
    let before = std::fs::metadata(&kept).unwrap().permissions();
    assert_failed(inspect(&kit).await, FailureCode::RunnerFailed, &[]);
    assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions(), before);
}
