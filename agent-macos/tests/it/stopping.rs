//! Every phase stops within two seconds, however the agent learns that it must.

use std::time::{Duration, Instant};

use fencepost_protocol::{AgentEnvelope, Code, Directive, Disposition, GatewayFrame, LeaseRef};

use crate::agent::{Agent, REAL, eventually};
use crate::gateway::{Gateway, Trouble};
use crate::session::{Session, content, huge, offer, small, word};

/// What an attempt is doing when it must stop.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Doing {
    Waiting,
    Downloading,
    Running,
    Uploading,
}

const ALL: [Doing; 4] = [
    Doing::Waiting,
    Doing::Downloading,
    Doing::Running,
    Doing::Uploading,
];

/// How the agent learns it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// A cancel is pushed.
    Cancel,
    /// The push was lost; the answer to the next report says it.
    Answer,
    /// The next report is refused: the lease is somebody else's.
    Refusal,
}

struct Scene {
    gateway: Gateway,
    agent: Agent,
    session: Session,
    long: (String, u64),
    short: (String, u64),
}

impl Scene {
    async fn set() -> Self {
        let mut gateway = Gateway::start().await;
        let long = gateway.put_clip("/long", 20).await;
        let short = gateway.put_clip("/short", 1).await;
        let mut agent = Agent::paired(&gateway).await.with_stand_in(REAL);
        agent.start();
        let mut session = gateway.session().await;
        session.welcome_empty().await;
        Self {
            gateway,
            agent,
            session,
            long,
            short,
        }
    }

    /// Brings an attempt to where it is doing this.
    async fn begin(&mut self, doing: Doing) -> LeaseRef {
        let (path, source, params) = match doing {
            Doing::Waiting | Doing::Uploading => ("/short", self.short.clone(), small()),
            Doing::Downloading => ("/drip", ("00".repeat(32), 1 << 20), small()),
            Doing::Running => ("/long", self.long.clone(), huge()),
        };
        self.gateway.objects.trouble("/drip", Trouble::Drip);
        self.gateway.objects.trouble("/out", Trouble::StopsReading);
        let mut offer = offer(source, params);
        path.clone_into(&mut offer.inputs[0].url);
        let lease = offer.lease();
        let session = &mut self.session;
        session.directive = Directive::Continue;
        if doing == Doing::Waiting {
            session.until("pull").await;
            let frame = GatewayFrame::LeaseOffer(Box::new(offer));
            session.send(None, None, frame).await;
            session.until("offer_accept").await;
            return lease;
        }
        session.lease(offer).await;
        let phase = match doing {
            Doing::Waiting => unreachable!(),
            Doing::Downloading => "downloading",
            Doing::Running => "running",
            Doing::Uploading => "uploading",
        };
        session
            .until_true(|said| content(said)["phase"] == phase)
            .await;
        if doing == Doing::Running {
            session.until_encoding().await;
        }
        lease
    }

    /// Tells the agent; gives when.
    async fn tell(&mut self, lease: LeaseRef, way: Way) -> Instant {
        match way {
            Way::Cancel => {
                let reason = "buyer_cancelled".to_owned();
                let cancel = GatewayFrame::Cancel { reason };
                self.session.send(None, Some(lease), cancel).await;
            }
            Way::Answer => {
                self.session.directive = Directive::Stop;
                self.session.until("progress").await;
            }
            Way::Refusal => {
                let said = self.progress().await;
                let code = Code::LeaseConflict;
                let refusal = GatewayFrame::Rejected {
                    code,
                    disposition: Disposition::Stop,
                    retry_after_ms: None,
                    message: None,
                };
                self.session.answer(&said, refusal).await;
            }
        }
        Instant::now()
    }

    /// The next report, unanswered.
    async fn progress(&mut self) -> AgentEnvelope {
        loop {
            let said = self.session.hear().await.expect("the agent hung up");
            if word(&said) == "progress" {
                return said;
            }
        }
    }
}

async fn every_phase_stops(way: Way) {
    let mut scene = Scene::set().await;
    for doing in ALL {
        // An attempt that waits for its accept reports nothing.
        if doing == Doing::Waiting && way != Way::Cancel {
            continue;
        }
        let lease = scene.begin(doing).await;
        let told = scene.tell(lease, way).await;
        scene.agent.is_idle(Duration::from_secs(2)).await;
        if way != Way::Refusal {
            let stopped = scene.session.until("stopped").await;
            assert_eq!(stopped.frame.lease(), Some(lease), "{doing:?}");
        }
        assert!(told.elapsed() < Duration::from_secs(2), "{doing:?} {way:?}");
        let agent = &scene.agent;
        eventually("the lease is forgotten", || {
            agent.listing("leases").is_empty()
        })
        .await;
        assert!(agent.listing("children").is_empty(), "{doing:?}");
        assert!(scene.gateway.objects.get("/out").is_none());
    }
    // The slot is free, and it is asked for by itself.
    scene.session.until("pull").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_ends_every_phase_within_two_seconds() {
    every_phase_stops(Way::Cancel).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_cancel_is_made_good_by_the_next_answer_in_every_phase() {
    every_phase_stops(Way::Answer).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_lease_ends_every_phase_within_two_seconds() {
    every_phase_stops(Way::Refusal).await;
}
