//! A claim whose secret never arrived: given back by its device and its request alone.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::ids::{JobId, RequestId};
use fencepost_store::fence::FenceMode;
use fencepost_store::tx::end_by_agent::AgentEndAnswer;
use fencepost_tests::world::TTL;
use fencepost_tests::{Lease, World};

/// Everything but the one fact is right.
#[tokio::test]
async fn a_claim_whose_secret_never_arrived_is_given_back_by_its_device_and_request_alone() {
    for fence in [FenceMode::Both, FenceMode::OnlyPure, FenceMode::OnlyWhere] {
        for wrong in [
            "device",
            "job",
            "epoch",
            "request",
            "expired",
            "presented",
            "nothing",
        ] {
            let world = World::new().await;
            let (mac, other) = (world.device("mac").await, world.device("other").await);
            world.submit().await;
            let id = RequestId::new();
            let lease = world.claim_as(&mac, id).await;
            let (mut asked, mut with) = (lease.clone(), id);
            match wrong {
                "device" => asked.0.device = other.id,
                "job" => asked.0.job = JobId::new(),
                "epoch" => asked.0.epoch += 1,
                "request" => with = RequestId::new(),
                "expired" => world.clock.advance(TTL).await,
                "presented" => drop(world.progress(&lease, Phase::Leased).await),
                _ => {}
            }
            let before = world.db.rows().await;
            let answer = give_back(&world, fence, &asked, with).await;
            if wrong == "nothing" {
                assert_eq!(answer.as_deref(), Some("released"), "{fence:?}");
                assert_eq!(world.statuses(&lease).await, "queued, lost");
                assert_eq!(world.attempt_column(lease.attempt, "charged").await, "f");
            } else {
                // The WHERE alone is never asked, and says that it contradicts.
                let expected = (fence != FenceMode::OnlyWhere).then_some("refused");
                assert_eq!(answer.as_deref(), expected, "{fence:?} {wrong}");
                assert_eq!(world.db.rows().await, before, "{fence:?} {wrong}");
                let tokens_are_good = world.statuses(&lease).await;
                assert_eq!(tokens_are_good, "active, leased");
            }
        }
    }
}

/// `None` where the two halves of the fence contradict each other.
async fn give_back(
    world: &World,
    fence: FenceMode,
    lease: &Lease,
    claim_request: RequestId,
) -> Option<String> {
    use fencepost_store::tx::end_by_agent::{AgentEnd, AgentEndKind};
    let kind = AgentEndKind::GiveBack {
        claim_request,
        reason: "the answer was lost".to_owned(),
    };
    let end = AgentEnd {
        claim: lease.claim(),
        kind,
    };
    let answers = world.store.with_fence(fence).end_by_agent(vec![end]).await;
    Some(match answers.ok()?.remove(0) {
        AgentEndAnswer::Final { .. } => "released".to_owned(),
        AgentEndAnswer::Refused(_) => "refused".to_owned(),
        AgentEndAnswer::Nothing => "nothing".to_owned(),
    })
}

#[tokio::test]
async fn every_presentation_of_the_epoch_ends_the_giving_back_without_a_secret() {
    for by in ["progress", "renew", "grant"] {
        let world = World::new().await;
        let mac = world.device("mac").await;
        world.submit().await;
        let id = RequestId::new();
        let lease = world.claim_as(&mac, id).await;
        world.clock.advance(Duration::from_secs(1)).await;
        match by {
            "progress" => drop(world.progress(&lease, Phase::Running).await),
            "renew" => drop(world.renew(&lease, None).await),
            _ => drop(
                world
                    .store
                    .grant_objects(lease.claim())
                    .await
                    .unwrap()
                    .unwrap(),
            ),
        }
        let answer = world.give_back(&lease, id).await;
        assert!(
            matches!(answer, AgentEndAnswer::Refused(_)),
            "{by}: {answer:?}"
        );
        world.end(lease.release()).await;
    }
}
