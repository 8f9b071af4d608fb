//! Pages that speak the renderer's protocol themselves and mean no good.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fencepost_media::{FailureCode, MediaFailure, Output, Progress, run};
use serde_json::{Value, json};

use crate::kit::{Kit, job_of};
use crate::remotion::studio;

/// The page that the agent draws at its start, which this one changes.
const PAGE: &str = include_str!("../../src/remotion/trial.html");

/// A bundle of the honest page and a script that runs after its own.
fn bundle(kit: &Kit, script: &str) -> PathBuf {
    let folder = kit.source("bundle");
    std::fs::create_dir_all(&folder).unwrap();
    let page = format!("{PAGE}<script>{script}</script>");
    std::fs::write(folder.join("index.html"), page).unwrap();
    std::fs::write(folder.join("bundle.js"), "").unwrap();
    folder
}

async fn render(kit: &Kit, bundle: &Path) -> Result<Output, MediaFailure> {
    let params = json!({"composition": "trial", "encode": {"codec": "h264"}});
    work(kit, "remotion.render.v1", bundle, &params).await
}

async fn work(
    kit: &Kit,
    service: &str,
    bundle: &Path,
    params: &Value,
) -> Result<Output, MediaFailure> {
    let job = job_of(service, &[("bundle", bundle)], params);
    run(&kit.bench, &job, &|_| ()).await
}

#[track_caller]
fn assert_invalid(result: Result<Output, MediaFailure>, says: &str) {
    let failure = result.expect_err("this must fail");
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
    assert!(failure.to_string().contains(says), "{failure}");
}

#[tokio::test]
async fn a_page_that_ends_the_renderer_cannot_blame_the_device_with_its_last_words() {
    let kit = studio().await;
    // The renderer's server throws an error with this address, and with it Node ends.
    let page = "window.remotion_renderReady = false; fetch('/proxy/sandbox-exec:');";
    let result = render(&kit, &bundle(&kit, page)).await;
    let failure = result.expect_err("its server is gone");
    assert_eq!(failure.code(), Some(FailureCode::RunnerFailed), "{failure}");
    assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_composition_of_odd_numbers_is_refused_before_a_frame_is_drawn() {
    let kit = studio().await;
    for odd in [
        // Longer than a line that is listened to.
        "width: '1'.repeat(20000)",
        "durationInFrames: 1e12",
        "durationInFrames: Infinity",
        "fps: NaN",
        "fps: [25]",
        "height: -64",
    ] {
        let page = format!(
            "window.remotion_calculateComposition = () => ({{...composition, {odd}}});\n\
             window.remotion_setFrame = () => {{ throw new Error('drawn'); }};"
        );
        let result = render(&kit, &bundle(&kit, &page)).await;
        assert_invalid(result, "the composition is not as it should be");
    }
}

#[tokio::test]
async fn a_bundle_that_lists_a_composition_twice_is_the_buyers_to_mend() {
    let kit = studio().await;
    let page = "window.getStaticCompositions = () => [composition, composition];";
    let bundle = bundle(&kit, page);
    let result = work(&kit, "remotion.inspect.v1", &bundle, &json!({})).await;
    assert_invalid(result, "is in it twice");
}

#[tokio::test]
async fn a_page_that_never_stops_is_stopped_whenever_that_is() {
    let mut kit = studio().await;
    // Remotion gives no page less than seven seconds.
    kit.bench.limits.frame = Duration::from_secs(10);
    for page in [
        "for (;;);",
        "window.remotion_calculateComposition = () => new Promise(() => {});",
        "window.remotion_setFrame = (frame) => { show(frame); while (frame === 1); };",
    ] {
        let began = Instant::now();
        let failure = render(&kit, &bundle(&kit, page)).await;
        let failure = failure.expect_err("it never ends");
        assert_eq!(failure.code(), Some(FailureCode::Stalled), "{failure}");
        assert!(began.elapsed() < Duration::from_secs(30), "{page}");
        assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
    }
}

/// The processes that were started for a piece of work in this folder.
fn processes_of(folder: &Path) -> Vec<PathBuf> {
    let mark = format!("FENCEPOST_WORK={}", folder.display());
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let environments = all.map(|process| process.path().join("environ"));
    let is_ours = |path: &PathBuf| {
        let environment = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(&mark)
    };
    environments.filter(is_ours).collect()
}

#[tokio::test]
async fn a_stop_ends_a_real_browser_in_the_middle_of_a_frame_and_leaves_nothing() {
    let kit = studio().await;
    let page = "window.remotion_setFrame = (frame) => { show(frame); while (frame === 2); };";
    let bundle = bundle(&kit, page);
    let params = json!({"composition": "trial", "encode": {"codec": "h264"}});
    let job = job_of("remotion.render.v1", &[("bundle", &bundle)], &params);
    let stop = kit.bench.stop.clone();
    let stopped = std::sync::OnceLock::new();
    let note = |progress: Progress| {
        if progress.percent > Some(0) {
            assert!(!processes_of(&kit.bench.folder).is_empty());
            stopped.get_or_init(Instant::now);
            stop.cancel();
        }
    };
    let result = run(&kit.bench, &job, &note).await;
    assert_eq!(result.unwrap_err(), MediaFailure::Stopped);
    let took = stopped.get().expect("a frame was drawn").elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(processes_of(&kit.bench.folder), Vec::<PathBuf>::new());
    assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_page_that_fills_the_disk_is_ended() {
    let mut kit = studio().await;
    kit.bench.limits.profile_bytes = 60_000_000;
    kit.bench.limits.file_bytes = 1 << 30;
    let page = r"
        window.remotion_calculateComposition = async () => {
          const opened = indexedDB.open('store');
          opened.onupgradeneeded = () => opened.result.createObjectStore('all');
          await new Promise((resolve) => { opened.onsuccess = resolve; });
          for (let number = 0; number < 40; number++) {
            const bytes = new Uint8Array(1e7);
            for (let at = 0; at < 1e7; at += 50000) {
              crypto.getRandomValues(bytes.subarray(at, at + 50000));
            }
            const change = opened.result.transaction('all', 'readwrite');
            change.objectStore('all').put(new Blob([bytes]), number);
            await new Promise((resolve) => { change.oncomplete = resolve; });
          }
          await new Promise((resolve) => { setTimeout(resolve, 5000); });
          return composition;
        };";
    let result = render(&kit, &bundle(&kit, page)).await;
    assert_invalid(result, "more than 60000000 bytes in the browser");
    assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
}

/// Tells a page which port its browser is steered through, once that is known.
async fn betray_port(kit: &Kit, bundle: &Path) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for environment in processes_of(&kit.bench.folder) {
            let environment = std::fs::read(environment).unwrap_or_default();
            let variables = String::from_utf8_lossy(&environment).into_owned();
            let mut variables = variables.split('\0');
            if let Some(port) = variables.find_map(|one| one.strip_prefix("FENCEPOST_DEBUG_PORT="))
            {
                std::fs::write(bundle.join("public/port.txt"), port).unwrap();
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_page_does_not_reach_its_own_browsers_port_for_debugging() {
    if !Path::new("/proc").exists() {
        return;
    }
    let kit = studio().await;
    let page = r"
        const told = async () => {
          for (;;) {
            const port = await fetch('/public/port.txt', {cache: 'no-store'});
            if (port.ok) return port.text();
            await new Promise((resolve) => { setTimeout(resolve, 100); });
          }
        };
        window.remotion_calculateComposition = async () => {
          const port = await told();
          const at = `127.0.0.1:${port}/`;
          const answers = await fetch(`http://${at}json`, {mode: 'no-cors'}).then(() => 'does', () => 'not');
          const read = await fetch(`http://${at}json`).then(() => 'read', () => '');
          const socket = new WebSocket(`ws://${at}devtools/browser`);
          const opened = await new Promise((resolve) => {
            socket.onopen = () => resolve('opened');
            socket.onerror = () => resolve('');
          });
          throw new Error(`${answers} answer, reached [${read}${opened}]`);
        };";
    let bundle = bundle(&kit, page);
    std::fs::create_dir(bundle.join("public")).unwrap();
    let (result, ()) = tokio::join!(render(&kit, &bundle), betray_port(&kit, &bundle));
    let text = result.expect_err("it throws").to_string();
    assert!(text.contains("does answer, reached []"), "{text}");
}
