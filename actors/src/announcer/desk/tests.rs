use fencepost_domain::ids::JobId;
use time::OffsetDateTime;

use super::*;

struct Stage {
    desk: Desk,
    org: OrgId,
    job: JobId,
}

impl Stage {
    fn new(streams: usize, per_org: usize) -> Self {
        Self {
            desk: Desk::new(WatchLimits { streams, per_org }),
            org: OrgId::new(),
            job: JobId::new(),
        }
    }

    fn listen(&mut self, after: i64) -> Result<mpsc::Receiver<Told>, ListenRefusal> {
        self.desk.listen(Listen {
            org: self.org,
            job: self.job,
            after,
            cut: Box::new(|| {}),
        })
    }

    /// One round, in which the job is so and these events are new to everybody.
    fn round(&mut self, status: &str, events: &[(i64, &str)], has_more: bool) -> bool {
        let asked = self.desk.questions();
        let news: Vec<_> = asked
            .into_iter()
            .map(|asked| (asked, Some(self.news(status, events, has_more))))
            .collect();
        self.desk.deliver(&news)
    }

    fn news(&self, status: &str, events: &[(i64, &str)], has_more: bool) -> JobNews {
        let events: Vec<_> = events.iter().map(|(seq, kind)| event(*seq, kind)).collect();
        let last = events.last().map_or(0, |event| event.seq);
        let is_over = matches!(status, "succeeded" | "failed" | "cancelled");
        JobNews {
            org: self.org,
            state: state(status),
            ready_lane: None,
            last_seq: last + i64::from(has_more),
            ended_at: is_over.then_some(OffsetDateTime::UNIX_EPOCH),
            events,
            through: last,
            has_more,
        }
    }
}

fn state(status: &str) -> JobState {
    JobState {
        status: status.to_owned(),
        phase: None,
        percent: None,
        attempts: 1,
        wake_at: None,
        waits: None,
    }
}

fn event(seq: i64, kind: &str) -> Arc<JobEvent> {
    Arc::new(JobEvent {
        seq,
        kind: kind.to_owned(),
        terminal: kind == "job.succeeded",
        data: serde_json::Value::Null,
        at: OffsetDateTime::UNIX_EPOCH,
    })
}

/// What has been told so far: numbers of events, statuses.
fn told(receiver: &mut mpsc::Receiver<Told>) -> Vec<String> {
    let mut all = Vec::new();
    while let Ok(told) = receiver.try_recv() {
        all.push(match told {
            Told::State(state) => state.status,
            Told::Event(event) => event.seq.to_string(),
        });
    }
    all
}

#[test]
fn a_state_is_told_when_it_changes_and_the_last_one_just_before_the_end() {
    let mut stage = Stage::new(9, 9);
    let mut receiver = stage.listen(0).unwrap();
    stage.round("queued", &[], false);
    stage.round("queued", &[], false);
    stage.round("active", &[(1, "attempt.event")], false);
    assert_eq!(told(&mut receiver), ["queued", "active", "1"]);
    // The job had not ended yet when its state was read, and had when its events were.
    stage.round(
        "verifying",
        &[(2, "attempt.event"), (3, "job.succeeded")],
        false,
    );
    assert_eq!(told(&mut receiver), ["verifying", "2", "succeeded", "3"]);
    assert!(receiver.is_closed());
    assert_eq!(stage.desk.len(), 0);
}

#[test]
fn an_ended_job_is_told_in_order_its_end_last() {
    let mut stage = Stage::new(9, 9);
    let mut receiver = stage.listen(0).unwrap();
    let has_more = stage.round("succeeded", &[(1, "attempt.event")], true);
    assert!(has_more);
    assert!(!stage.round("succeeded", &[(2, "job.succeeded")], false));
    assert_eq!(told(&mut receiver), ["1", "succeeded", "2"]);
}

#[test]
fn who_knows_the_end_already_and_who_watches_what_is_gone_are_let_go() {
    let mut stage = Stage::new(9, 9);
    let mut knows = stage.listen(3).unwrap();
    stage.round("succeeded", &[], false);
    assert_eq!(told(&mut knows), [""; 0]);
    let mut gone = stage.listen(0).unwrap();
    let asked = stage.desk.questions();
    stage.desk.deliver(&[(asked[0], None)]);
    assert_eq!(told(&mut gone), [""; 0]);
    assert_eq!(stage.desk.len(), 0);
}

#[test]
fn listeners_at_the_same_place_share_a_question() {
    let mut stage = Stage::new(9, 9);
    let (_one, _two, _other) = (stage.listen(0), stage.listen(0), stage.listen(4));
    let mut asked: Vec<_> = stage.desk.questions().iter().map(|one| one.after).collect();
    asked.sort_unstable();
    assert_eq!(asked, [0, 4]);
}

#[test]
fn who_does_not_read_is_not_asked_for_and_loses_nothing() {
    let mut stage = Stage::new(9, 9);
    let mut slow = stage.listen(0).unwrap();
    let page: Vec<_> = (1..=32).map(|seq| (seq, "attempt.event")).collect();
    // A state and a page fill more than half of the room.
    assert!(!stage.round("active", &page, true));
    assert_eq!(stage.desk.questions(), []);
    assert_eq!(told(&mut slow).len(), 33);
    let asked = stage.desk.questions();
    assert_eq!(asked[0].after, 32);
}

#[test]
fn who_never_reads_is_cut_off() {
    let mut stage = Stage::new(9, 9);
    let cut = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let cutter = Arc::clone(&cut);
    let listen = Listen {
        org: stage.org,
        job: stage.job,
        after: 0,
        cut: Box::new(move || cutter.store(true, std::sync::atomic::Ordering::Relaxed)),
    };
    let receiver = stage.desk.listen(listen).unwrap();
    let page: Vec<_> = (1..=32).map(|seq| (seq, "attempt.event")).collect();
    stage.round("active", &page, true);
    stage.desk.questions();
    let long_ago = Instant::now().checked_sub(PATIENCE);
    stage.desk.listeners[0].stuck_since = long_ago;
    stage.desk.questions();
    assert_eq!(stage.desk.len(), 0);
    assert!(cut.load(std::sync::atomic::Ordering::Relaxed));
    drop(receiver);
}

#[test]
fn there_is_room_for_so_many_and_for_so_many_of_one_org() {
    let mut stage = Stage::new(3, 2);
    let one = stage.listen(0).unwrap();
    let _two = stage.listen(0).unwrap();
    assert_eq!(stage.listen(0).err(), Some(ListenRefusal::Org(2)));
    stage.org = OrgId::new();
    let _three = stage.listen(0).unwrap();
    assert_eq!(stage.listen(0).err(), Some(ListenRefusal::Full));
    // Whoever hangs up makes room.
    drop(one);
    let _four = stage.listen(0).unwrap();
    stage.desk.close();
    assert_eq!(stage.listen(0).err(), Some(ListenRefusal::Closed));
}
