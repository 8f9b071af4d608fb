//! A new version is rolled out: two gateways, one after the other, under work.

use fencepost_domain::attempt::Phase;
use fencepost_protocol::{LeaseOffer, close};
use fencepost_tests::agent_client::{Device, Session};
use fencepost_tests::agent_frames::{assert_won, commit, declared, progress, resumed};
use fencepost_tests::{Site, TestGateway};

const DEVICES: usize = 5;
const SLOTS: usize = 4;

/// A device with what it holds.
struct Mac {
    device: Device,
    session: Session,
    held: Vec<LeaseOffer>,
}

impl Mac {
    /// Waits until its gateway has said goodbye, and goes on at another one.
    async fn move_to(&mut self, gateway: &TestGateway) {
        assert_eq!(self.session.close_code().await, Some(close::RESTART));
        self.session = self.device.dial(gateway).await;
        let offers: Vec<_> = self.held.iter().collect();
        let welcome = self.session.hello(&offers).await;
        assert_eq!(welcome.resumed.len(), self.held.len(), "leases were lost");
        self.held = self
            .held
            .iter()
            .map(|held| resumed(held, &welcome))
            .collect();
    }
}

#[tokio::test]
async fn two_gateways_that_are_restarted_in_turn_under_twenty_live_attempts_lose_none() {
    let site = Site::new().await;
    let (mut first, mut second) = (site.gateway().await, site.gateway().await);
    let buyer = site.buyer(&first);
    for _ in 0..DEVICES * SLOTS {
        buyer.submit_noop().await;
    }
    let mut macs = Vec::new();
    for number in 0..DEVICES {
        // They are spread over both.
        let gateway = if number % 2 == 0 { &first } else { &second };
        let device = site.device(gateway, &format!("mac-{number}")).await;
        let mut session = device.connect(gateway).await;
        let mut held = Vec::new();
        for _ in 0..SLOTS {
            held.push(session.lease_in(Phase::Running).await);
        }
        macs.push(Mac {
            device,
            session,
            held,
        });
    }
    first.stop().await;
    for mac in macs.iter_mut().step_by(2) {
        mac.move_to(&second).await;
    }
    let third = site.gateway().await;
    second.stop().await;
    for mac in &mut macs {
        mac.move_to(&third).await;
    }
    for mac in &mut macs {
        for lease in &mac.held {
            mac.session.ask(progress(lease, Phase::Uploading)).await;
            third.put(&lease.output.url, b"bytes").await;
            let answer = mac
                .session
                .ask(commit(lease, &declared(lease, b"bytes")))
                .await;
            assert_won(&answer);
        }
    }
    let query = "select count(*) || ' attempts, ' || count(*) filter (where status = 'succeeded')
        || ' succeeded, ' || count(*) filter (where charged) || ' charged' from attempts";
    assert_eq!(
        site.db.text(query).await,
        "20 attempts, 20 succeeded, 0 charged"
    );
}
