//! Each transaction is stopped at each of its points while something else happens to the same job:
//! a cancel, an expiry, a new session, the same request again, the end of its own connection.
//! Whoever waits for whom, both end, and what must always hold does.

use std::time::Duration;

use fencepost_domain::attempt::Phase;
use fencepost_domain::failure::FailureCode;
use fencepost_domain::ids::JobId;
use fencepost_store::tx::begin_verification::VerificationTicket;
use fencepost_store::tx::lease_round::Cursor;
use fencepost_store::{Store, StoreError};
use fencepost_tests::blocker::waiting;
use fencepost_tests::world::{SERVICES, TTL, good, settlement};
use fencepost_tests::{Device, Lease, World};
use tokio::task::JoinHandle;

const POINTS: [&str; 4] = ["begun", "locked", "written", "committed"];
const OTHERS: [&str; 5] = [
    "cancel",
    "expire",
    "reconnect",
    "the same again",
    "lost connection",
];
/// Longer than any of it takes: nothing may hang.
const LONG: Duration = Duration::from_secs(30);

/// What a transaction is about to be done to.
struct Scene {
    store: Store,
    mac: Device,
    job: JobId,
    lease: Option<Lease>,
    ticket: Option<VerificationTicket>,
}

type Outcome = JoinHandle<Result<(), StoreError>>;

impl Scene {
    /// A job in the state that `name` is for.
    async fn before(world: &World, mac: &Device, name: &str) -> Self {
        let job = world.submit().await;
        let mut scene = Self {
            store: world.store.clone(),
            mac: mac.clone(),
            job,
            lease: None,
            ticket: None,
        };
        if name == "lease_round" {
            return scene;
        }
        let lease = world.lease(mac).await;
        assert_eq!(lease.job, job, "another job waited before this one");
        if name != "return_offers" {
            world.progress(&lease, Phase::Uploading).await;
        }
        if name == "settle_commit" {
            scene.ticket = Some(world.begin_verification(&lease).await);
        }
        if name == "expire_due" {
            world.clock.advance(TTL).await;
        }
        scene.lease = Some(lease);
        scene
    }

    fn lease(&self) -> Lease {
        self.lease.clone().expect("only a round has none yet")
    }

    /// Starts the transaction.
    fn start(&self, world: &World, name: &str) -> Outcome {
        let store = self.store.clone();
        match name {
            "lease_round" => {
                let pulls = vec![self.mac.pull(1)];
                tokio::spawn(
                    async move { store.lease_round(pulls, Cursor::default()).await.map(drop) },
                )
            }
            "begin_verification" => {
                let commits = vec![self.lease().commit()];
                tokio::spawn(async move { store.begin_verification(commits).await.map(drop) })
            }
            "settle_commit" => {
                let ticket = self.ticket.as_ref().expect("it was committed");
                let settle = vec![settlement(ticket, good(30.0))];
                tokio::spawn(async move { store.settle_commit(settle).await.map(drop) })
            }
            "end_by_agent" => {
                let ends = vec![self.lease().fail(FailureCode::UploadFailed)];
                tokio::spawn(async move { store.end_by_agent(ends).await.map(drop) })
            }
            "cancel_job" => {
                let (org, job) = (world.org, self.job);
                tokio::spawn(async move { store.cancel_job(org, job).await.map(drop) })
            }
            "expire_due" => {
                tokio::spawn(async move { store.expire_due(100, &SERVICES).await.map(drop) })
            }
            "return_offers" => {
                let offers = vec![self.lease().claim()];
                tokio::spawn(async move { store.return_offers(offers).await.map(drop) })
            }
            other => panic!("there is no {other}"),
        }
    }

    /// Starts what happens meanwhile.
    async fn interfere(&mut self, world: &World, name: &str, other: &str) -> Option<Outcome> {
        match other {
            "cancel" => Some(self.start(world, "cancel_job")),
            "expire" => {
                world.clock.advance(TTL).await;
                Some(self.start(world, "expire_due"))
            }
            "reconnect" => {
                let minted = self.store.mint_session(&self.mac.token).await;
                self.mac.session = minted.expect("minting runs").expect("the token is good").1;
                let held = self.lease.iter().map(Lease::held).collect();
                let hello = world.hello(&self.mac, held);
                let store = self.store.clone();
                Some(tokio::spawn(async move {
                    store.begin_session(hello).await.map(drop)
                }))
            }
            "the same again" => Some(self.start(world, name)),
            _ => {
                // Only the one that stands at the point is in a transaction.
                let kill = "select pg_terminate_backend(pid) from pg_stat_activity
                    where datname = current_database() and application_name = 'fencepost'
                        and state like 'idle in transaction%'";
                world.db.texts(kill).await;
                None
            }
        }
    }
}

/// Waits until what was started has ended, or stands at a lock.
async fn has_met(world: &World, running: &Outcome) {
    let deadline = tokio::time::Instant::now() + LONG;
    while !running.is_finished() && waiting(&world.db).await.is_empty() {
        assert!(tokio::time::Instant::now() < deadline, "it does neither");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn ended(what: &str, running: Outcome) {
    let result = tokio::time::timeout(LONG, running)
        .await
        .unwrap_or_else(|_| panic!("{what} hangs"));
    let result = result.expect("it does not panic");
    assert!(result.is_ok(), "{what}: {result:?}");
}

/// Lets time pass and the buyer cancel until nothing is left to do.
async fn settle_down(world: &World) {
    for job in world
        .db
        .texts("select id from jobs where ended_at is null")
        .await
    {
        world.cancel(job.parse().expect("it is an id")).await;
    }
    world.clock.advance(Duration::from_mins(1)).await;
    world.sweep().await;
    let left = "select id || ' is ' || status from jobs where ended_at is null";
    assert_eq!(world.db.texts(left).await, [""; 0]);
    // Long enough for every back-off of the device.
    world.clock.advance(Duration::from_hours(2)).await;
}

/// The transaction `name` at each of its points against everything else.
async fn against_everything(name: &'static str) {
    let world = World::new().await;
    let mut mac = world.device("mac").await;
    for point in POINTS {
        if name == "lease_round" && point == "locked" {
            continue;
        }
        for other in OTHERS {
            let case = format!("{name}:{point} against {other}");
            let mut scene = Scene::before(&world, &mac, name).await;
            let mut pause = world.store.faults().pause_at(&format!("{name}:{point}"));
            let running = scene.start(&world, name);
            tokio::time::timeout(LONG, pause.reached())
                .await
                .unwrap_or_else(|_| panic!("{case}: it never came there"));
            let meanwhile = scene.interfere(&world, name, other).await;
            if let Some(meanwhile) = &meanwhile {
                has_met(&world, meanwhile).await;
            }
            pause.resume();
            ended(&case, running).await;
            if let Some(meanwhile) = meanwhile {
                ended(&case, meanwhile).await;
            }
            let violations = world.db.violations().await;
            assert!(violations.is_empty(), "{case}: {violations:#?}");
            mac.session = scene.mac.session;
            settle_down(&world).await;
            let violations = world.db.violations().await;
            assert!(violations.is_empty(), "{case}, later: {violations:#?}");
        }
    }
}

#[tokio::test]
async fn leasing_stopped_at_each_point_meets_everything() {
    against_everything("lease_round").await;
}

#[tokio::test]
async fn accepting_a_commit_stopped_at_each_point_meets_everything() {
    against_everything("begin_verification").await;
}

#[tokio::test]
async fn settling_a_commit_stopped_at_each_point_meets_everything() {
    against_everything("settle_commit").await;
}

#[tokio::test]
async fn failing_stopped_at_each_point_meets_everything() {
    against_everything("end_by_agent").await;
}

#[tokio::test]
async fn cancelling_stopped_at_each_point_meets_everything() {
    against_everything("cancel_job").await;
}

#[tokio::test]
async fn expiring_stopped_at_each_point_meets_everything() {
    against_everything("expire_due").await;
}

#[tokio::test]
async fn taking_an_offer_back_stopped_at_each_point_meets_everything() {
    against_everything("return_offers").await;
}
