//! This machine is at fault: strays of an earlier run, missing programs, no room.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use fencepost_protocol::{AgentEnvelope, GatewayFrame};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::agent::{Agent, REAL, eventually, is_running, stand_in};
use crate::gateway::{Gateway, Trouble};
use crate::session::{INTERVALS, Session, content, offer, small, word};

/// Ignores being asked to end, and has a child that does too. Says who it is.
const STUBBORN: &str = "trap '' TERM\n(trap '' TERM; while :; do sleep 0.1; done) & \
                        echo $! > \"${0%/*}/grandchild.new\"\n\
                        mv \"${0%/*}/grandchild.new\" \"${0%/*}/grandchild\"\n\
                        while :; do sleep 0.1; done";

async fn start(gateway: &mut Gateway, agent: &mut Agent) -> Session {
    agent.start();
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session
}

/// Waits for the failure, checks its code, acknowledges it; nothing is said twice.
async fn failed(session: &mut Session, code: &str) -> AgentEnvelope {
    let fail = session.until("fail").await;
    assert_eq!(content(&fail)["failure_code"], code, "{:?}", content(&fail));
    let done = GatewayFrame::Done {
        replayed: false,
        lease_remaining_ms: None,
    };
    session.answer(&fail, done).await;
    fail
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encoder_that_outlived_a_killed_agent_is_ended_before_the_next_hello() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 1).await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(STUBBORN);
    let mut session = start(&mut gateway, &mut agent).await;
    session.lease(offer(source, small())).await;
    eventually("the encoder runs", || agent.path("grandchild").exists()).await;
    let text = fs::read_to_string(agent.path("grandchild")).unwrap();
    let grandchild = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
    let strays = agent.children();
    assert_eq!(strays.len(), 1, "the encoder");
    // The agent alone: its encoder runs on, as it would on a Mac.
    agent.kill_alone();
    assert!(test_kill_process(strays[0]).is_ok() && test_kill_process(grandchild).is_ok());
    stand_in(&agent.path("ffmpeg"), REAL);
    agent.start();
    let mut session = gateway.session().await;
    session.until("hello").await;
    // Gone before a word was said. A zombie that nobody reaps in a container counts as gone.
    for pid in [strays[0], grandchild] {
        assert!(!is_running(pid), "{pid:?} is left");
    }
    assert!(agent.listing("work").is_empty() && agent.listing("children").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_with_the_number_of_an_old_encoder_is_left_alone() {
    let mut gateway = Gateway::start().await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
    let mut stranger = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    fs::create_dir(agent.path("children")).unwrap();
    let entry = serde_json::json!({
        "arguments": "60",
        "folder": agent.path("work"),
        "process": {"pid": stranger.id(), "started": "long ago"},
    });
    fs::write(agent.path("children/1-1.json"), entry.to_string()).unwrap();
    let mut session = start(&mut gateway, &mut agent).await;
    session.until("pull").await;
    assert!(
        stranger.try_wait().unwrap().is_none(),
        "a stranger was killed"
    );
    assert!(agent.listing("children").is_empty());
    kill_process(Pid::from_child(&stranger), Signal::KILL).unwrap();
    stranger.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_launch_that_fails_halfway_is_the_devices_fault_and_frees_its_slot_once() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 1).await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
    let mut session = start(&mut gateway, &mut agent).await;
    let (program, work) = (agent.path("ffmpeg"), agent.path("work"));
    for name in ["not executable", "missing", "a file where the folder was"] {
        session.until("pull").await;
        match name {
            "not executable" => {
                let mode = fs::Permissions::from_mode(0o644);
                fs::set_permissions(&program, mode).unwrap();
            }
            "missing" => fs::remove_file(&program).unwrap(),
            // Permissions keep nobody out who is root.
            _ => {
                fs::remove_dir(&work).unwrap();
                fs::write(&work, "in the way").unwrap();
            }
        }
        let offer = offer(source.clone(), small());
        let lease = offer.lease();
        let frame = GatewayFrame::LeaseOffer(Box::new(offer));
        session.send(None, None, frame).await;
        let accept = session.until("offer_accept").await;
        let lease_remaining_ms = Some(INTERVALS.lease_ttl_ms);
        let done = GatewayFrame::Done {
            replayed: false,
            lease_remaining_ms,
        };
        session.answer(&accept, done).await;
        let fail = failed(&mut session, "device_fault").await;
        assert_eq!(fail.frame.lease(), Some(lease), "{name}");
        assert!(agent.children().is_empty(), "{name}");
    }
    // One pull for one slot, and not a word about what is over.
    let mut pulls = 0;
    let listening = async {
        while let Some(said) = session.hear().await {
            assert!(said.frame.lease().is_none(), "{said:?}");
            pulls += usize::from(word(&said) == "pull");
        }
    };
    let silence = tokio::time::timeout(Duration::from_millis(1_500), listening).await;
    assert!(silence.is_err() && pulls == 1, "{pulls} pulls");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_link_is_asked_for_again_and_the_attempt_goes_on() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/fresh", 1).await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
    let mut session = start(&mut gateway, &mut agent).await;
    for path in ["/in", "/out"] {
        gateway.objects.trouble(path, Trouble::Status(403));
    }
    session.lease(offer(source, small())).await;
    for (name, direction, url) in [("source", "get", "/fresh"), ("output", "put", "/fresh-out")] {
        let grant = session.until("grant").await;
        let asked = content(&grant);
        assert_eq!(
            (&asked["name"], &asked["direction"]),
            (&name.into(), &direction.into())
        );
        let granted = GatewayFrame::Granted {
            url: url.to_owned(),
            object_key: format!("key-of{url}"),
            parts: None,
        };
        session.answer(&grant, granted).await;
    }
    let commit = session.until("commit").await;
    assert_eq!(content(&commit)["output"]["object_key"], "key-of/fresh-out");
    assert!(gateway.objects.get("/fresh-out").is_some());
}
