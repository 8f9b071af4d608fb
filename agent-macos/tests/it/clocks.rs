//! Only the clock that runs during sleep counts.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::agent::{Agent, REAL, eventually};
use crate::gateway::Gateway;
use crate::session::{INTERVALS, huge, offer};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn nothing_in_the_agent_reads_a_wall_clock_or_believes_what_the_gateway_says_about_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("media/src"), &mut files);
    assert!(files.len() > 50, "{} files", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // What tests say about it comes last in a file, or in a file of tests.
        let code = text.split("#[cfg(test)]").next().unwrap();
        let is_test = file.components().any(|part| part.as_os_str() == "tests")
            || file.ends_with("tests.rs")
            || file.ends_with("testing.rs");
        if is_test {
            continue;
        }
        for word in [
            "SystemTime",
            "UNIX_EPOCH",
            "OffsetDateTime",
            "lease_expires_at",
            "Utc",
        ] {
            // The commands for detached leases show what the gateway says to whoever typed them, and
            // compare it with nothing.
            let is_shown = word == "lease_expires_at"
                && file.components().any(|part| part.as_os_str() == "detached");
            assert!(
                is_shown || !code.contains(word),
                "{word} in {}",
                file.display()
            );
        }
    }
}

/// The gateway's wall clock is half a century wrong in all of these tests: every lease says that it
/// expired in 1970.
#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_only_says_busy_is_worked_for_until_shortly_before_the_lease_is_over() {
    let mut gateway = Gateway::start().await;
    let source = gateway.put_clip("/in", 20).await;
    let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
    agent.start();
    let mut session = gateway.session().await;
    session.welcome_empty().await;
    session.lease(offer(source, huge())).await;
    session.until_encoding().await;
    // The last renewal that is confirmed was sent before this.
    let confirmed = std::time::Instant::now();
    let ttl = Duration::from_millis(INTERVALS.lease_ttl_ms);
    let mut worked_until = confirmed;
    let answering = async {
        while let Some(said) = session.hear().await {
            if said.frame.lease().is_some() {
                let frame = fencepost_protocol::GatewayFrame::Busy {
                    retry_after_ms: 300,
                };
                session.answer(&said, frame).await;
            }
        }
    };
    let watching = async {
        while !agent.children().is_empty() {
            worked_until = std::time::Instant::now();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = answering => panic!("the agent hung up"),
        () = watching => {}
    }
    let worked = worked_until - confirmed;
    assert!(worked < ttl, "worked for {worked:?} without authority");
    assert!(worked > ttl / 2, "gave up after {worked:?}");
    eventually("nothing is left", || {
        agent.listing("leases").is_empty() && agent.listing("work").is_empty()
    })
    .await;
    assert!(gateway.objects.get("/out").is_none());
}
