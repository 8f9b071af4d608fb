use super::*;

fn device(free: usize, words: &[&str]) -> DeviceRoom {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    DeviceRoom {
        device: DeviceId::new(),
        free,
        words,
    }
}

fn candidate(org: OrgId, lane: &str) -> Candidate {
    Candidate {
        job: JobId::new(),
        org,
        lane: lane.to_owned(),
        barred: Vec::new(),
        shunned: Vec::new(),
    }
}

fn room(org: OrgId, live: i64, limit: Option<i64>) -> OrgRoom {
    OrgRoom { org, live, limit }
}

#[test]
fn a_device_gets_only_what_it_has_proven() {
    let org = OrgId::new();
    let software = candidate(org, "encode.h264 transcode.v1");
    let hardware = candidate(org, "transcode.v1 videotoolbox.h264");
    let mac = device(2, &["transcode.v1", "encode.h264"]);
    let expected = vec![Assignment {
        job: software.job,
        device: mac.device,
    }];
    let got = assign(vec![mac], &[hardware, software], &[room(org, 0, None)]);
    assert_eq!(got, expected);
}

#[test]
fn a_thousand_jobs_of_one_org_do_not_delay_the_one_of_another() {
    let (busy, quiet) = (OrgId::new(), OrgId::new());
    let mut queue: Vec<_> = (0..1000).map(|_| candidate(busy, "transcode.v1")).collect();
    queue.push(candidate(quiet, "transcode.v1"));
    let wanted = queue[1000].job;
    let rooms = [room(busy, 0, None), room(quiet, 0, None)];
    let got = assign(vec![device(2, &["transcode.v1"])], &queue, &rooms);
    assert_eq!(got.len(), 2);
    assert!(got.iter().any(|assignment| assignment.job == wanted));
}

#[test]
fn an_org_never_gets_more_than_its_limit() {
    let org = OrgId::new();
    let queue: Vec<_> = (0..5).map(|_| candidate(org, "transcode.v1")).collect();
    let got = assign(
        vec![device(5, &["transcode.v1"])],
        &queue,
        &[room(org, 1, Some(3))],
    );
    assert_eq!(got.len(), 2);
}

#[test]
fn a_job_prefers_a_device_that_has_not_failed_it_but_takes_it_if_alone() {
    let org = OrgId::new();
    let bad = device(9, &["transcode.v1"]);
    let good = device(1, &["transcode.v1"]);
    let mut job = candidate(org, "transcode.v1");
    job.shunned = vec![bad.device];
    let rooms = [room(org, 0, None)];
    let got = assign(
        vec![bad.clone(), good.clone()],
        std::slice::from_ref(&job),
        &rooms,
    );
    assert_eq!(got[0].device, good.device);
    let got = assign(vec![bad.clone()], std::slice::from_ref(&job), &rooms);
    assert_eq!(got[0].device, bad.device);
    job.barred = vec![bad.device];
    assert!(assign(vec![bad], &[job], &rooms).is_empty());
}

#[test]
fn nobody_is_given_more_than_its_free_slots() {
    let org = OrgId::new();
    let queue: Vec<_> = (0..9).map(|_| candidate(org, "transcode.v1")).collect();
    let devices = vec![device(1, &["transcode.v1"]), device(2, &["transcode.v1"])];
    assert_eq!(assign(devices, &queue, &[room(org, 0, None)]).len(), 3);
}
