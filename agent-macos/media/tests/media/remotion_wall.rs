//! The wall around a bundle: what a stranger's program can reach of this machine and its network.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use fencepost_media::fixture::remotion_bundle;
use fencepost_media::{Remotion, Wall, run};
use serde_json::json;

use crate::kit::{Kit, empty_bundle, job_of, soon, stand_in};
use crate::remotion::{color, render, studio};

/// Lets everything through.
fn tear_down_wall(kit: &mut Kit) {
    let program = stand_in(kit.sources.path(), "sandbox-exec", "shift 2; exec \"$@\"");
    let remotion = kit.bench.tools.remotion.as_mut().expect("it was found");
    remotion.wall = Wall::Seatbelt { program };
    // Nothing shortens the path of Chrome's socket now.
    kit.bench.folder.pop();
}

/// Whether somebody has called.
fn was_called(listener: &TcpListener) -> bool {
    listener.set_nonblocking(true).expect("a socket");
    listener.accept().is_ok()
}

#[tokio::test]
async fn a_bundle_reaches_nothing_of_the_network_not_even_this_machine() {
    let mut kit = studio().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let params = json!({"composition": "phones-home", "props": {"address": address}});
    let film = render(&kit, params.clone()).await.expect("a film");
    let [red, green, _] = color(&kit, &film.file, 1).await;
    assert!(green > 100 && red < 80, "{red} {green}");
    assert!(!was_called(&listener));

    // The same without a wall, so that it is the wall that keeps it in.
    tear_down_wall(&mut kit);
    render(&kit, params).await.expect("a film");
    assert!(was_called(&listener));
}

#[tokio::test]
async fn a_playlist_in_a_bundle_leads_to_no_file_of_this_machine() {
    let mut kit = studio().await;
    // A sound of a film elsewhere on this machine, in the form of which playlists are made.
    let secret = kit
        .make(
            "secret.ts",
            &["-f", "lavfi", "-i", "sine=duration=2", "-c:a", "aac"],
        )
        .await;
    let bundle = kit.source("bundle");
    let mut copy = std::process::Command::new("cp");
    let copied = copy.arg("-R").arg(remotion_bundle()).arg(&bundle).status();
    assert!(copied.unwrap().success());
    let list = format!(
        "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nfile://{}\n#EXT-X-ENDLIST\n",
        secret.display()
    );
    std::fs::write(bundle.join("public/list.m3u8"), list).unwrap();
    let params = json!({
        "composition": "tone", "props": {"sound": "list.m3u8"}, "encode": {"codec": "h264"},
    });
    let job = job_of("remotion.render.v1", &[("bundle", &bundle)], &params);
    run(&kit.bench, &job, &|_| ())
        .await
        .expect_err("there is nothing to be heard");

    // The same without a wall, so that it is the wall that keeps it in.
    tear_down_wall(&mut kit);
    let film = run(&kit.bench, &job, &|_| ()).await.expect("a film");
    assert!(film.checked.has_audio);
}

/// What a renderer sees that is a script of the shell, behind this machine's wall or none.
async fn seen(is_walled: bool, script: &str) -> String {
    let mut kit = studio().await;
    let found = kit.bench.tools.remotion.take().expect("it was found");
    let programs = kit.source("programs");
    std::fs::create_dir(&programs).unwrap();
    empty_bundle(&programs);
    std::fs::write(kit.source("secret"), "secret").unwrap();
    let secret = kit.source("secret").display().to_string();
    // The answer goes out as the name of a composition.
    let script = format!(
        "said=$( ( SECRET='{secret}'; {script} ) 2>/dev/null | tr '\\n' ' ')\n\
         echo '{{\"opened\":true}}'\n\
         echo \"[{{\\\"id\\\":\\\"$said\\\",\\\"width\\\":2,\\\"height\\\":2,\\\"fps\\\":1,\
         \\\"duration_in_frames\\\":1}}]\" > compositions.json\n\
         echo '{{\"done\":true}}'"
    );
    kit.bench.tools.remotion = Some(Remotion {
        node: stand_in(&programs, "node", &script),
        packages: programs.clone(),
        browser: PathBuf::from("/usr/bin/true"),
        wall: found.wall,
        version: found.version,
    });
    if !is_walled {
        tear_down_wall(&mut kit);
    }
    let job = job_of("remotion.inspect.v1", &[("bundle", &programs)], &json!({}));
    let output = run(&kit.bench, &job, &|_| ()).await.expect("a list");
    let kept = std::fs::read_to_string(kit.source("secret")).unwrap();
    let node = std::fs::read_to_string(programs.join("node")).unwrap();
    assert!(
        kept == "secret" && node.starts_with("#!/bin/sh"),
        "{kept} {node}"
    );
    let text = std::fs::read_to_string(output.file).unwrap();
    let list: serde_json::Value = serde_json::from_str(&text).unwrap();
    list["compositions"][0]["id"]
        .as_str()
        .unwrap()
        .trim()
        .to_owned()
}

#[tokio::test]
async fn a_bundle_sees_no_files_of_this_machines_people_and_writes_only_its_own() {
    let secret = r#"cat "$SECRET""#;
    assert_eq!(seen(true, secret).await, "");
    assert_eq!(seen(false, secret).await, "secret");
    // Where the secret lies outside there may be room inside, which is not the same.
    seen(true, r#"echo x > "$SECRET""#).await;
    let program = r#"echo x > "$0" && echo written"#;
    assert_eq!(seen(true, program).await, "");
    let own = r#"echo x > "$HOME/own" && cat "$HOME/own" && ls "$TMPDIR" | grep -c own"#;
    assert_eq!(seen(true, own).await, "x 1");
}

#[tokio::test]
async fn a_bundle_has_an_environment_of_its_own_and_sees_no_other_processes() {
    let names = r"env | sed 's/=.*//' | sort | grep -v -e '^_$' -e PWD -e SHLVL";
    assert_eq!(
        seen(true, names).await,
        "FENCEPOST_BROWSER FENCEPOST_DEBUG_PORT FENCEPOST_WORK HOME PATH TMPDIR"
    );
    let processes = format!("ls -d /proc/{} && echo seen", std::process::id());
    if Path::new("/proc").exists() {
        assert_eq!(seen(true, &processes).await, "");
        assert!(seen(false, &processes).await.ends_with("seen"));
    }
}

#[tokio::test]
async fn a_bundle_has_no_rights_of_roots_and_no_terminal_of_the_agents() {
    if !Path::new("/proc").exists() {
        return;
    }
    let rights = "grep -c 'Cap\\(Prm\\|Eff\\|Bnd\\).*0000000000000000' /proc/self/status";
    assert_eq!(seen(true, rights).await, "3");
    // A session of another namespace has no number here.
    let session = "read -r _ _ _ _ _ session _ < /proc/self/stat; echo $session";
    assert_ne!(seen(true, session).await, "0");
}

#[tokio::test]
async fn every_process_behind_the_wall_has_its_limits() {
    let mut limits = seen(true, "ulimit -t; ulimit -f; ulimit -c").await;
    limits.push(' ');
    let numbers: Vec<u64> = limits
        .split_whitespace()
        .map_while(|n| n.parse().ok())
        .collect();
    let [seconds, blocks, core] = numbers[..] else {
        panic!("not all are limited: {limits}");
    };
    assert!(seconds >= 6 * 3600, "{seconds}");
    assert_eq!(blocks, 64 << 21);
    assert_eq!(core, 0);
    if cfg!(target_os = "linux") {
        assert_eq!(seen(true, "cat /proc/self/oom_score_adj").await, "1000");
        assert_eq!(seen(true, "ulimit -d").await, (8 << 20).to_string());
    }
}

/// Where the second process of a test writes.
const INSIDE: &str = "FENCEPOST_TEST_LEFT";

#[tokio::test]
async fn a_browser_dies_with_an_agent_that_is_killed() {
    let test = "remotion_wall::a_browser_dies_with_an_agent_that_is_killed";
    if let Some(left) = std::env::var_os(INSIDE) {
        let bundle = PathBuf::from(left);
        let mut kit = studio().await;
        let remotion = kit.bench.tools.remotion.as_mut().expect("it was found");
        remotion.node = stand_in(&bundle, "node", "echo '{\"opened\":true}'; exec sleep 1000");
        remotion.packages.clone_from(&bundle);
        let job = job_of("remotion.inspect.v1", &[("bundle", &bundle)], &json!({}));
        let ended = run(&kit.bench, &job, &|_| ()).await;
        panic!("it was to be killed: {ended:?}");
    }
    let left = tempfile::tempdir().unwrap();
    empty_bundle(left.path());
    let mut agent = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(INSIDE, left.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Its folder's name is in what runs behind the wall.
    let runs = || {
        let ours = left.path().join("node").display().to_string();
        let all = std::process::Command::new("ps")
            .args(["-axww", "-o", "args="])
            .output();
        let all = String::from_utf8_lossy(&all.unwrap().stdout).into_owned();
        all.lines().any(|line| line.contains(&ours))
    };
    let started = soon(runs).await;
    agent.kill().unwrap();
    agent.wait().unwrap();
    assert!(started);
    assert!(!cfg!(target_os = "linux") || soon(|| !runs()).await);
}
