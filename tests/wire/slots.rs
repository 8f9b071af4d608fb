//! However an attempt ends, its slot is free again: the next offer arrives.

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{AgentFrame, GatewayFrame, LeaseOffer};
use fencepost_tests::agent_client::{Device, Session, Welcome};
use fencepost_tests::agent_frames::{
    accept, assert_won, commit, declared, decline, fail, progress, release, resumed, stopped,
};
use fencepost_tests::buyer::Buyer;
use fencepost_tests::gateway::{ACCEPT, TTL};
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};

/// One way to end an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commit,
    CommitOfOtherBytes,
    FailForGood,
    FailForNow,
    Release,
    Decline,
    NoAnswer,
    Expiry,
    CancelThenStopped,
    CancelThenCommit,
    CancelOfTheOffer,
    CutBeforeAccept,
    CutAndForgotten,
    CutAndResumed,
}

const ENDINGS: [Ending; 14] = [
    Ending::Commit,
    Ending::CommitOfOtherBytes,
    Ending::FailForGood,
    Ending::FailForNow,
    Ending::Release,
    Ending::Decline,
    Ending::NoAnswer,
    Ending::Expiry,
    Ending::CancelThenStopped,
    Ending::CancelThenCommit,
    Ending::CancelOfTheOffer,
    Ending::CutBeforeAccept,
    Ending::CutAndForgotten,
    Ending::CutAndResumed,
];

/// A device with its session, and the road that jobs take to it.
struct Bench<'a> {
    site: &'a Site,
    gateway: &'a TestGateway,
    buyer: Buyer,
    device: Device,
    session: Session,
}

impl Bench<'_> {
    /// One job that this device wins, so that no streak of its failures holds it back.
    async fn succeed(&mut self) {
        let job = self.buyer.submit_noop().await;
        let (offer, output) = self.session.lease_and_upload(self.gateway, b"bytes").await;
        assert_eq!(offer.job_id.to_string(), job);
        let answer = self.session.ask(commit(&offer, &output)).await;
        assert_won(&answer);
    }

    async fn end(&mut self, ending: Ending) {
        let job = self.buyer.submit_noop().await;
        let offer = self.session.pull_offer().await;
        assert_eq!(offer.job_id.to_string(), job);
        match ending {
            Ending::Decline => self.say(decline(&offer)).await,
            Ending::NoAnswer => self.site.clock.advance(ACCEPT).await,
            Ending::CancelOfTheOffer => {
                self.buyer.cancel(&job).await;
            }
            Ending::CutBeforeAccept => {
                self.reconnect(&[]).await;
            }
            _ => {
                self.say(accept(&offer)).await;
                self.say(progress(&offer, Phase::Uploading)).await;
                self.end_accepted(ending, &job, offer).await;
            }
        }
        until("the attempt to end", || async {
            !self.site.statuses(&job).await.contains("active")
        })
        .await;
        // What was requeued is not what the next round is about.
        self.buyer.cancel(&job).await;
    }

    async fn end_accepted(&mut self, ending: Ending, job: &str, offer: LeaseOffer) {
        match ending {
            Ending::FailForGood => self.say(fail(&offer, "runner_failed")).await,
            Ending::FailForNow => self.say(fail(&offer, "upload_failed")).await,
            Ending::Release => self.say(release(&offer)).await,
            Ending::Expiry => self.site.clock.advance(TTL).await,
            Ending::CancelThenStopped => {
                self.buyer.cancel(job).await;
                self.say(stopped(&offer)).await;
            }
            Ending::CancelThenCommit => {
                self.buyer.cancel(job).await;
                self.say(commit(&offer, &declared(&offer, b"bytes"))).await;
            }
            Ending::CutAndForgotten => {
                self.reconnect(&[]).await;
            }
            Ending::CutAndResumed => {
                let welcome = self.reconnect(&[&offer]).await;
                let offer = resumed(&offer, &welcome);
                self.gateway.put(&offer.output.url, b"bytes").await;
                self.say(commit(&offer, &declared(&offer, b"bytes"))).await;
            }
            _ => {
                self.gateway.put(&offer.output.url, b"bytes").await;
                let said: &[u8] = match ending {
                    Ending::Commit => b"bytes",
                    _ => b"other bytes",
                };
                self.say(commit(&offer, &declared(&offer, said))).await;
            }
        }
    }

    async fn say(&mut self, frame: AgentFrame) {
        let answer = self.session.ask(frame).await;
        assert!(
            !matches!(answer, GatewayFrame::Rejected { .. }),
            "{answer:?}"
        );
    }

    async fn reconnect(&mut self, held: &[&LeaseOffer]) -> Welcome {
        let session = self.device.dial(self.gateway).await;
        std::mem::replace(&mut self.session, session).cut().await;
        self.session.hello(held).await
    }
}

/// Three rounds of all endings, each followed by a job that is done well.
async fn end_in_every_way(slots: u32) {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let device = site.device(&gateway, "mac").await.with_slots(slots);
    let session = device.connect(&gateway).await;
    let mut bench = Bench {
        site: &site,
        gateway: &gateway,
        buyer: site.buyer(&gateway),
        device,
        session,
    };
    for _ in 0..3 {
        for ending in ENDINGS {
            bench.end(ending).await;
            bench.succeed().await;
        }
    }
    let live = site
        .db
        .text("select count(*) from attempts where ended_at is null");
    assert_eq!(live.await, "0");
    let most = slots as usize;
    for _ in 0..=most {
        bench.buyer.submit_noop().await;
    }
    bench.session.pull(slots + 1).await;
    for _ in 0..most {
        bench.session.offer().await;
    }
    bench.session.finds_no_work().await;
}

#[tokio::test]
async fn a_slot_is_free_again_after_every_ending() {
    end_in_every_way(1).await;
}

#[tokio::test]
async fn two_slots_are_free_again_after_every_ending() {
    end_in_every_way(2).await;
}
