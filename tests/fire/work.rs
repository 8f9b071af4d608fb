//! What the tests of real gateways do again and again: run a job to its end, whatever was before.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{Disposition, GatewayFrame, LeaseOffer};
use fencepost_tests::TestGateway;
use fencepost_tests::agent_client::Session;
use fencepost_tests::agent_frames::{accept, commit, declared, progress};
use fencepost_tests::wait::PATIENCE;

/// What the output of a job is.
pub(crate) const OUTPUT: &[u8] = b"the output";

/// Pulls until there is an offer, and accepts it.
pub(crate) async fn lease(session: &mut Session) -> LeaseOffer {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        session.pull(1).await;
        let heard = session
            .until(|heard| {
                matches!(
                    heard.frame,
                    GatewayFrame::LeaseOffer(_) | GatewayFrame::NoWork
                )
            })
            .await;
        if let GatewayFrame::LeaseOffer(offer) = heard.frame {
            let answer = session.ask(accept(&offer)).await;
            assert!(matches!(answer, GatewayFrame::Done { .. }), "{answer:?}");
            return *offer;
        }
        assert!(tokio::time::Instant::now() < deadline, "there is no work");
    }
}

/// Uploads and commits what is held; it must be accepted.
pub(crate) async fn finish(gateway: &TestGateway, session: &mut Session, lease: &LeaseOffer) {
    session.ask(progress(lease, Phase::Uploading)).await;
    let stored = gateway.put(&lease.output.url, OUTPUT).await;
    assert!(stored.status().is_success(), "{stored:?}");
    commit_until_final(session, lease).await;
}

/// Says the same commit until it is settled; gives whether the answer was a stored one.
pub(crate) async fn commit_until_final(session: &mut Session, lease: &LeaseOffer) -> bool {
    let output = declared(lease, OUTPUT);
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match session.ask(commit(lease, &output)).await {
            GatewayFrame::CommitOk { replayed } => return replayed,
            GatewayFrame::Rejected {
                disposition: Disposition::Retry,
                ..
            } => {}
            other => panic!("the commit was not accepted: {other:?}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "it is not settled");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
