//! Limits of a renderer, with programs that stand in for Node and for `sandbox-exec`: without a
//! namespace around them, so that nothing but our own care ends what they leave.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fencepost_media::{FailureCode, MediaFailure, Output, Progress, Remotion, Roster, Wall, run};
use serde_json::{Value, json};

use crate::kit::{Kit, empty_bundle, is_running, job_of, pid_in, soon, stand_in};

pub(crate) const OPENED: &str = r#"echo '{"opened":true}'"#;
const DESCRIBED: &str = r#"echo '{"composition":{"id":"film","width":64,"height":36,"fps":10,"duration_in_frames":3}}'"#;
const DRAWN: &str = r#"for n in 1 2 3; do echo "{\"drawn\":$n,\"written\":0}"; done"#;
const STILL: &str = r#"echo '{"drawn":0,"written":0}'"#;
/// Leaves a process that belongs to no group and no parent of ours, and says which it is.
const SCATTER: &str = r#"setsid sh -c 'echo $$ > "$1/stray"; exec sleep 1000' sh "$LEFT" &"#;
/// Waits for it.
const SCATTERED: &str = r#"while [ ! -s "$LEFT/stray" ]; do sleep 0.02; done"#;

/// A workbench whose renderer does what a script of the shell says, in which `$LEFT` is a folder that
/// outlives the work.
pub(crate) async fn studio(script: &str) -> Kit {
    let mut kit = Kit::new().await;
    let sources = kit.sources.path();
    empty_bundle(sources);
    let script = format!("LEFT='{}'\n{script}", sources.display());
    kit.bench.tools.remotion = Some(Remotion {
        node: stand_in(sources, "node", &script),
        packages: sources.to_owned(),
        version: "4.0.0".to_owned(),
        browser: PathBuf::from("/bin/false"),
        wall: Wall::Seatbelt {
            program: stand_in(sources, "sandbox-exec", "shift 2; exec \"$@\""),
        },
    });
    kit.bench.limits.browser_start = Duration::from_millis(600);
    kit.bench.limits.frame = Duration::from_millis(600);
    kit
}

async fn work(kit: &Kit, service: &str, params: &Value) -> Result<Output, MediaFailure> {
    let job = job_of(service, &[("bundle", kit.sources.path())], params);
    run(&kit.bench, &job, &|_: Progress| ()).await
}

async fn render(kit: &Kit) -> Result<Output, MediaFailure> {
    let params = json!({"composition": "film", "encode": {"codec": "h264"}});
    work(kit, "remotion.render.v1", &params).await
}

pub(crate) async fn inspect(kit: &Kit) -> Result<Output, MediaFailure> {
    work(kit, "remotion.inspect.v1", &json!({})).await
}

#[track_caller]
pub(crate) fn assert_failed(
    result: Result<Output, MediaFailure>,
    code: FailureCode,
    says: &[&str],
) {
    let failure = result.expect_err("this must fail");
    assert_eq!(failure.code(), Some(code), "{failure}");
    for says in says {
        assert!(failure.to_string().contains(says), "{failure}");
    }
}

/// That nothing is left of the work: no file, and not the process that wrote its number to `stray`.
async fn assert_gone(kit: &Kit) {
    let stray = pid_in(&kit.source("stray")).await;
    assert!(soon(|| !is_running(stray)).await, "{stray} still runs");
    assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_browser_that_hangs_at_the_start_is_tried_twice_and_then_the_limit_of_the_start_is_named()
{
    let kit = studio(&format!("pwd >> \"$LEFT/tries\"\n{SCATTER}\nsleep 1000")).await;
    let says = [
        "did not open within 0.6 s (the limit of the start)",
        "2 tries",
    ];
    assert_failed(render(&kit).await, FailureCode::DeviceFault, &says);
    let tries = std::fs::read_to_string(kit.source("tries")).unwrap();
    let folders: Vec<&str> = tries.lines().collect();
    assert_eq!(folders.len(), 2);
    assert_ne!(folders[0], folders[1]);
    assert_gone(&kit).await;
}

#[tokio::test]
async fn a_second_try_has_a_new_profile_and_nothing_of_the_first_ones() {
    let script = format!(
        "touch \"$HOME/profile\"\n[ -e \"$LEFT/stray\" ] || {{ {SCATTER} sleep 1000; }}\n\
         ls .. \"$HOME\" > \"$LEFT/seen\"\n{OPENED}\necho '[]' > compositions.json\n\
         echo '{{\"done\":true}}'"
    );
    let kit = studio(&script).await;
    let output = inspect(&kit).await.expect("the second try is good");
    std::fs::remove_file(output.file).unwrap();
    let seen = std::fs::read_to_string(kit.source("seen")).unwrap();
    assert!(
        seen.contains("browser-2") && !seen.contains("browser-1"),
        "{seen}"
    );
    assert_eq!(seen.matches("profile").count(), 1, "{seen}");
    assert_gone(&kit).await;
}

#[tokio::test]
async fn a_renderer_that_hangs_at_any_frame_is_ended_and_the_limit_per_frame_is_named() {
    let limit = "within 0.6 s (the limit per frame)";
    for (script, says) in [
        (OPENED.to_owned(), "the bundle's page was not ready"),
        (
            format!("{OPENED}\n{DESCRIBED}"),
            "the first frame was not drawn",
        ),
        (
            format!("{OPENED}\n{DESCRIBED}\n{DRAWN}"),
            "3 frames were drawn, and nothing followed",
        ),
    ] {
        // Lines that say nothing new are no sign of life.
        let script = format!("{script}\n{SCATTER}\nwhile :; do {STILL}; sleep 0.1; done");
        let kit = studio(&script).await;
        let began = Instant::now();
        assert_failed(render(&kit).await, FailureCode::Stalled, &[says, limit]);
        assert!(began.elapsed() < Duration::from_secs(10));
        assert_gone(&kit).await;
    }
}

#[tokio::test]
async fn a_renderer_that_never_ends_is_ended_by_the_limit_of_the_whole() {
    let script = format!(
        "{OPENED}\n{DESCRIBED}\n{SCATTER}\nn=0; while :; do n=$((n+1)); \
         echo \"{{\\\"drawn\\\":$n,\\\"written\\\":0}}\"; sleep 0.1; done"
    );
    let mut kit = studio(&script).await;
    kit.bench.limits.run_time = Duration::from_secs(2);
    let says = ["within 2 s (the limit of the whole)"];
    assert_failed(render(&kit).await, FailureCode::RuntimeExceeded, &says);
    assert_gone(&kit).await;
}

#[tokio::test]
async fn what_a_renderer_leaves_is_ended_however_it_ends_itself() {
    for (end, code) in [
        ("exit 1", Some(FailureCode::RunnerFailed)),
        ("kill -SEGV $$", Some(FailureCode::RunnerFailed)),
        ("kill -KILL $$", Some(FailureCode::DeviceFault)),
        ("exit 0", Some(FailureCode::RunnerFailed)),
        // A result, and nobody who says that it is whole.
        (
            "echo '[]' > compositions.json",
            Some(FailureCode::RunnerFailed),
        ),
        (
            "echo '[]' > compositions.json; echo '{\"done\":true}'",
            None,
        ),
    ] {
        let kit = studio(&format!("{OPENED}\n{SCATTER}\n{SCATTERED}\n{end}")).await;
        match inspect(&kit).await {
            Ok(output) => {
                assert_eq!(code, None, "{end}");
                std::fs::remove_file(output.file).unwrap();
            }
            Err(failure) => assert_eq!(failure.code(), code, "{end}: {failure}"),
        }
        assert_gone(&kit).await;
    }
}

#[tokio::test]
async fn a_stop_and_a_dropped_future_end_everything() {
    for is_dropped in [false, true] {
        let kit = studio(&format!("{OPENED}\n{DESCRIBED}\n{SCATTER}\nsleep 1000")).await;
        let mut running = Box::pin(render(&kit));
        let stray = kit.source("stray");
        tokio::select! {
            ended = &mut running => panic!("it was to hang: {ended:?}"),
            _ = pid_in(&stray) => {}
        }
        if is_dropped {
            drop(running);
        } else {
            let began = Instant::now();
            kit.bench.stop.cancel();
            assert_eq!(running.await.unwrap_err(), MediaFailure::Stopped);
            assert!(began.elapsed() < Duration::from_secs(2));
        }
        assert_gone(&kit).await;
    }
}

#[tokio::test]
async fn a_film_that_costs_more_than_was_sold_is_refused_before_a_frame_is_drawn() {
    let long = DESCRIBED.replace("\"duration_in_frames\":3", "\"duration_in_frames\":700");
    let script = format!("{OPENED}\n{SCATTER}\n{SCATTERED}\n{long}\nsleep 1000");
    let kit = studio(&script).await;
    let says = ["70.00 s long", "limits.max_output_seconds"];
    assert_failed(render(&kit).await, FailureCode::InputInvalid, &says);
    assert_gone(&kit).await;
}

#[tokio::test]
async fn what_went_wrong_is_told_in_the_words_of_who_said_it_without_paths() {
    let failed = |place: &str, ours: bool| {
        let message = "title is undefined (/home/me/secret/index.js)";
        let failed = json!({"place": place, "message": message, "ours": ours});
        format!("echo '{}'; exit 1", json!({ "failed": failed }))
    };
    for (script, code, says) in [
        (
            failed("opening", false),
            FailureCode::DeviceFault,
            "the browser did not open",
        ),
        (
            format!("{OPENED}\n{}", failed("bundle", false)),
            FailureCode::InputInvalid,
            "the bundle cannot be rendered",
        ),
        (
            format!("{OPENED}\n{}", failed("bundle", true)),
            FailureCode::DeviceFault,
            "the bundle cannot be rendered",
        ),
    ] {
        let kit = studio(&script).await;
        let failure = render(&kit).await.expect_err("it gave up");
        assert_eq!(failure.code(), Some(code), "{failure}");
        let text = failure.to_string();
        assert!(
            text.contains(says) && text.contains("title is undefined"),
            "{text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn what_is_no_file_is_no_result_and_nothing_is_read_through_it() {
    let list = r#"{"id":"stolen","width":2,"height":2,"fps":1,"duration_in_frames":1}"#;
    for put in [
        "ln -s \"$LEFT/secret.json\" compositions.json",
        "mkfifo compositions.json",
        "mkdir compositions.json",
        ":",
    ] {
        let script = format!("{OPENED}\n{put}\necho '{{\"done\":true}}'");
        let kit = studio(&script).await;
        std::fs::write(kit.source("secret.json"), format!("[{list}]")).unwrap();
        let says = ["wrote no file"];
        assert_failed(inspect(&kit).await, FailureCode::RunnerFailed, &says);
        assert_eq!(kit.work_files(), Vec::<PathBuf>::new());
    }
}

#[tokio::test]
async fn nobody_is_left_when_the_result_is_handed_over() {
    // Would see the result outside of the folder that was its own.
    let wait = "while [ ! -e ../compositions.json ]; do :; done; echo seen > \"$1/seen\"";
    let script = format!(
        "{OPENED}\n{SCATTER}\n{SCATTERED}\nsetsid sh -c '{wait}' sh \"$LEFT\" >/dev/null 2>&1 &\n\
         sleep 0.1\necho '[]' > compositions.json\necho '{{\"done\":true}}'"
    );
    let kit = studio(&script).await;
    let output = inspect(&kit).await.expect("a list");
    std::fs::remove_file(output.file).unwrap();
    assert_gone(&kit).await;
    assert!(!kit.source("seen").exists());
}

#[tokio::test]
async fn a_list_that_is_too_long_is_refused_as_it_is_and_as_it_is_written() {
    let kit = studio(&format!(
        "{OPENED}\ncp \"$LEFT/list\" compositions.json\necho '{{\"done\":true}}'"
    ))
    .await;
    let says = ["more than 1048576 bytes"];
    std::fs::write(kit.source("list"), vec![b'x'; 1_100_000]).unwrap();
    assert_failed(inspect(&kit).await, FailureCode::InputInvalid, &says);
    // Short enough, but not with its lines indented.
    let one = |n: u32| json!({"id": n.to_string(), "width": 2, "height": 2, "fps": 1, "duration_in_frames": 1});
    let list = serde_json::to_vec(&(0..10_000).map(one).collect::<Vec<_>>()).unwrap();
    assert!(list.len() < 1_000_000);
    std::fs::write(kit.source("list"), list).unwrap();
    assert_failed(inspect(&kit).await, FailureCode::InputInvalid, &says);
}

#[tokio::test]
async fn only_the_first_description_counts() {
    let long = DESCRIBED.replace("\"duration_in_frames\":3", "\"duration_in_frames\":700");
    // In one piece, so that both are read before anything is ended.
    let both = format!("both=$({long}; {DESCRIBED}); echo \"$both\"");
    let kit = studio(&format!("{OPENED}\n{both}\nsleep 1000")).await;
    let says = ["70.00 s long"];
    assert_failed(render(&kit).await, FailureCode::InputInvalid, &says);
    // To say it again is no sign of life.
    let kit = studio(&format!(
        "{OPENED}\nwhile :; do {DESCRIBED}; {OPENED}; sleep 0.1; done"
    ))
    .await;
    let mut running = Box::pin(render(&kit));
    let ended = tokio::time::timeout(Duration::from_secs(8), &mut running).await;
    let says = ["the first frame was not drawn"];
    assert_failed(ended.expect("it is ended"), FailureCode::Stalled, &says);
}

#[tokio::test]
async fn frames_of_a_composition_that_nobody_described_are_refused() {
    let long = format!(
        r#"{{"composition":{{"id":"{}","width":64,"height":36,"fps":10,"duration_in_frames":3}}}}"#,
        "x".repeat(10_000)
    );
    let script = format!("{OPENED}\n{SCATTER}\n{SCATTERED}\necho '{long}'\n{DRAWN}\nsleep 1000");
    let kit = studio(&script).await;
    let says = ["was not described"];
    assert_failed(render(&kit).await, FailureCode::InputInvalid, &says);
    assert_gone(&kit).await;
}

#[tokio::test]
async fn last_words_of_a_renderer_that_has_opened_blame_no_device() {
    for words in [
        "No space left on device",
        "sandbox-exec: denied",
        "Permission denied",
    ] {
        let kit = studio(&format!("{OPENED}\necho '{words}' >&2\nexit 1")).await;
        assert_failed(render(&kit).await, FailureCode::RunnerFailed, &[words]);
    }
}

#[tokio::test]
async fn the_next_run_of_the_agent_ends_browsers_that_a_killed_one_left() {
    let kit = studio(&format!("{OPENED}\n{SCATTER}\nsleep 1000")).await;
    let roster = Roster::open(kit.source("children")).unwrap();
    let mut bench = kit.bench.clone();
    bench.tools.roster = Some(roster.clone());
    bench.limits.frame = Duration::from_mins(5);
    let job = job_of(
        "remotion.inspect.v1",
        &[("bundle", kit.sources.path())],
        &json!({}),
    );
    // Nobody is left to end anything, as after a SIGKILL of the agent.
    let running = tokio::spawn(async move { run(&bench, &job, &|_: Progress| ()).await });
    let stray = pid_in(&kit.source("stray")).await;
    let again = Roster::open(kit.source("children")).unwrap();
    again.take_over().unwrap();
    assert!(is_running(stray));
    let ended = || again.end_leftovers().is_ok_and(|left| left == 0);
    assert!(soon(ended).await);
    assert!(soon(|| !is_running(stray)).await);
    running.await.unwrap().expect_err("it was killed");
}
