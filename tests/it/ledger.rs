//! The ledger's own check: silent after whatever jobs do, and not silent about a single wrong row.

use fencepost_domain::ledger::PostingKind;
use fencepost_domain::period::{Period, UtcMonth};
use fencepost_store::views::{Balance, JournalFilter};
use fencepost_tests::World;
use fencepost_tests::chance::Chance;
use fencepost_tests::holds::settle_from_all_sides;
use fencepost_tests::mixed::mixed_jobs;
use fencepost_tests::world::{CREDIT, HELD};
use time::macros::datetime;

#[tokio::test]
async fn after_a_thousand_jobs_that_ended_in_every_way_everything_adds_up() {
    let world = World::new().await;
    let mut chance = Chance::new(1, 0);
    let ended = mixed_jobs(&world, &mut chance, 1_000).await;
    assert_eq!(ended.values().sum::<u64>(), 1_000, "{ended:?}");
    for status in ["succeeded", "failed", "cancelled"] {
        assert!(
            ended.get(status).is_some_and(|jobs| *jobs > 50),
            "{ended:?}"
        );
    }
    let check = world.store.check_ledger().await.unwrap();
    assert_eq!(check.findings, []);
    assert_eq!((check.jobs, check.orgs), (1_000, 1));
    assert!(check.postings > 1_500, "{check:?}");
}

#[tokio::test]
async fn a_hold_that_is_settled_from_all_sides_at_once_is_settled_once() {
    let world = World::new().await;
    let mut chance = Chance::new(2, 0);
    let paid = settle_from_all_sides(&world, 60, &mut chance).await;
    assert!(
        (1..60).contains(&paid),
        "it was no race: {paid} were paid for"
    );
    assert_eq!(world.store.check_ledger().await.unwrap().findings, []);
}

/// A wrong row, and the rule that it breaks.
const FAULTS: [(&str, &str); 13] = [
    (
        "update org_accounts set available_micros = available_micros + 1",
        "is the sum of its postings",
    ),
    (
        "delete from postings where kind = 'credit'",
        "is the sum of its postings",
    ),
    (
        "delete from postings where kind = 'credit'",
        "no balance is negative",
    ),
    (
        "update postings set amount_micros = amount_micros + 1 where kind = 'hold'",
        "exactly its hold",
    ),
    (
        "update postings set amount_micros = amount_micros - 1 where kind = 'release'",
        "to the last micro",
    ),
    (
        "delete from postings where kind = 'release'",
        "to the last micro",
    ),
    (
        "insert into postings (kind, debit, credit, amount_micros, org_id, job_id)
            select 'release', 'org_held', 'org_available', 1, org_id, id from jobs where ended_at is null",
        "while its job lives",
    ),
    (
        "insert into postings (kind, debit, credit, amount_micros, org_id, job_id)
            select 'capture_platform', 'org_held', 'platform', 1, org_id, id from jobs
            where status = 'cancelled'",
        "only a job that succeeded",
    ),
    (
        "update postings set amount_micros = amount_micros + 7 where kind in ('capture_platform', 'release')",
        "the price by the job's own terms",
    ),
    (
        "update postings set amount_micros = amount_micros + case kind when 'capture_provider' then 1
            when 'capture_platform' then -1 else 0 end",
        "rounded down",
    ),
    (
        "insert into providers (id, name) values (gen_random_uuid(), 'another');
         update postings set provider_id = (select id from providers where name = 'another')
            where kind = 'capture_provider'",
        "the winning attempt's",
    ),
    (
        "insert into orgs (id, name) values (gen_random_uuid(), 'another');
         update postings set org_id = (select id from orgs where name = 'another')
            where kind = 'capture_platform'",
        "of its job's org",
    ),
    (
        "alter table postings drop constraint kind_names_its_accounts;
         update postings set credit = 'external' where kind = 'release'",
        "the two accounts of its kind",
    ),
];

/// A job that succeeded, one that was cancelled and one that waits.
async fn three_jobs(world: &World) {
    let mac = world.device("mac").await;
    let lease = world
        .in_phase(&mac, fencepost_domain::attempt::Phase::Uploading)
        .await;
    world.win(&lease).await;
    let cancelled = world.submit().await;
    world.cancel(cancelled).await;
    world.submit().await;
}

#[tokio::test]
async fn every_wrong_row_is_found() {
    let world = World::new().await;
    three_jobs(&world).await;
    assert_eq!(world.store.check_ledger().await.unwrap().findings, []);
    let db = &world.db;
    db.execute(
        "create table saved_postings as select * from postings;
         create table saved_accounts as select * from org_accounts",
    )
    .await;
    let open = "alter table postings disable trigger user;";
    let close = "alter table postings enable always trigger append_only;
        alter table postings enable always trigger append_only_whole;";
    for (fault, rule) in FAULTS {
        db.execute(&format!("{open} {fault}; {close}")).await;
        let findings = world.store.check_ledger().await.unwrap().findings;
        let found = findings.iter().find(|one| one.rule.contains(rule));
        let found = found.unwrap_or_else(|| panic!("{fault}: {rule} is not in {findings:?}"));
        assert!(!found.ids.is_empty(), "{found:?}");
        db.execute(&format!(
            "{open} delete from postings;
             insert into postings overriding system value select * from saved_postings;
             delete from org_accounts where org_id not in (select org_id from saved_accounts);
             update org_accounts o set available_micros = s.available_micros,
                held_micros = s.held_micros from saved_accounts s where o.org_id = s.org_id;
             delete from orgs where name = 'another'; delete from providers where name = 'another';
             {close}"
        ))
        .await;
    }
    let findings = world.store.check_ledger().await.unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].ids, ["postings.kind_names_its_accounts"]);
}

#[tokio::test]
async fn a_protection_that_is_gone_is_named() {
    let world = World::new().await;
    for (fault, id) in [
        (
            "alter table postings disable trigger append_only",
            "postings.append_only",
        ),
        (
            "drop trigger append_only_whole on postings",
            "postings.append_only_whole",
        ),
        (
            "alter table audit_log enable trigger append_only",
            "audit_log.append_only",
        ),
        (
            "alter table org_accounts drop constraint never_overdrawn",
            "org_accounts.never_overdrawn",
        ),
        (
            "drop index at_most_one_of_a_kind_per_job",
            "at_most_one_of_a_kind_per_job",
        ),
    ] {
        world.db.execute(fault).await;
        let findings = world.store.check_ledger().await.unwrap().findings;
        let mut ids = findings.iter().flat_map(|one| &one.ids);
        assert!(ids.any(|found| found == id), "{fault}: {findings:?}");
    }
}

#[tokio::test]
async fn a_second_capture_of_a_job_is_found_even_if_nothing_prevents_it() {
    let world = World::new().await;
    three_jobs(&world).await;
    let again = "insert into postings (kind, debit, credit, amount_micros, org_id, job_id)
        select kind, debit, credit, amount_micros, org_id, job_id from postings
        where kind = 'release' and job_id in (select id from jobs where status = 'cancelled')";
    world
        .db
        .execute("drop index at_most_one_of_a_kind_per_job")
        .await;
    world.db.execute(again).await;
    let findings = world.store.check_ledger().await.unwrap().findings;
    assert!(
        findings
            .iter()
            .any(|one| one.rule == "each kind is posted at most once for a job"),
        "{findings:?}"
    );
    world
        .db
        .execute(
            "alter table postings disable trigger user;
             delete from postings where id = (select max(id) from postings)",
        )
        .await;
}

#[tokio::test]
async fn history_stays_for_a_session_that_switches_ordinary_triggers_off() {
    let world = World::new().await;
    let delete = "set session_replication_role = replica; delete from postings";
    assert_eq!(world.db.refusal(delete).await.0, "FP003");
    let forge = "set session_replication_role = replica; update audit_log set actor = 'nobody'";
    assert_eq!(world.db.refusal(forge).await.0, "FP003");
}

/// Every movement is in exactly one month, also where the clocks of Europe and America change, and
/// whatever time zone the database is told to speak.
#[tokio::test]
async fn months_of_utc_hold_every_movement_once_over_both_clock_changes() {
    let world = World::new().await;
    let zone = format!(
        "alter database {} set timezone = 'Europe/Berlin'",
        world.db.name()
    );
    world.db.execute(&zone).await;
    let org = world.store.create_org("other", None).await.unwrap();
    let instants = [
        datetime!(2026-02-28 23:59:59.999999 UTC),
        datetime!(2026-03-01 00:00 UTC),
        // Both changes of spring, to the hour that they skip and the one after it.
        datetime!(2026-03-08 09:59:59.999999 UTC),
        datetime!(2026-03-08 10:00 UTC),
        datetime!(2026-03-29 00:59:59.999999 UTC),
        datetime!(2026-03-29 01:00 UTC),
        datetime!(2026-03-31 22:30 UTC),
        datetime!(2026-03-31 23:59:59.999999 UTC),
        datetime!(2026-04-01 00:00 UTC),
        // Both hours of each change of autumn that clocks show twice.
        datetime!(2026-10-25 00:30 UTC),
        datetime!(2026-10-25 01:30 UTC),
        datetime!(2026-10-31 23:59:59.999999 UTC),
        datetime!(2026-11-01 00:00 UTC),
        datetime!(2026-11-01 05:30 UTC),
        datetime!(2026-11-01 06:30 UTC),
    ];
    for (number, instant) in instants.into_iter().enumerate() {
        world.clock.set(instant).await;
        // Powers of two: the sum says which of them are in it.
        world.store.add_credit(org, 1 << number).await.unwrap();
    }
    let mut month: UtcMonth = "2026-01".parse().unwrap();
    let (mut seen, mut before) = (0, 0);
    for _ in 0..12 {
        let period = month.period();
        let statement = world.store.statement(org, period).await.unwrap().unwrap();
        let inside = instants
            .iter()
            .enumerate()
            .filter(|(_, instant)| (period.from..period.until).contains(*instant));
        let expected: i64 = inside.map(|(number, _)| 1 << number).sum();
        let filter = JournalFilter {
            period: Some(period),
            limit: 100,
            ..JournalFilter::default()
        };
        let listed = world.store.journal(org, filter).await.unwrap();
        let listed: i64 = listed.iter().map(|one| one.amount_micros).sum();
        let (opening, closing) = (
            statement.opening.available_micros,
            statement.closing.available_micros,
        );
        assert_eq!((closing - opening, listed), (expected, expected), "{month}");
        assert_eq!(opening, before, "{month}");
        (seen, before) = (seen + expected, closing);
        month = month.next();
    }
    assert_eq!(seen, (1 << instants.len()) - 1);
}

#[tokio::test]
async fn a_statement_says_what_was_held_captured_and_released() {
    let world = World::new().await;
    three_jobs(&world).await;
    let now = world.clock.now().await;
    let period = Period {
        from: now,
        until: now + time::Duration::MICROSECOND,
    };
    let statement = world
        .store
        .statement(world.org, period)
        .await
        .unwrap()
        .unwrap();
    let totals: Vec<_> = statement
        .totals
        .iter()
        .map(|total| (total.kind, total.postings, total.micros))
        .collect();
    assert_eq!(
        totals,
        [
            (PostingKind::Credit, 1, CREDIT),
            (PostingKind::Hold, 3, 3 * HELD),
            (PostingKind::CaptureProvider, 1, 1_050),
            (PostingKind::CapturePlatform, 1, 450),
            (PostingKind::Release, 2, 10_500),
        ]
    );
    let none = Balance {
        available_micros: 0,
        held_micros: 0,
    };
    assert_eq!(statement.opening, none);
    let balance = world.store.balance(world.org).await.unwrap();
    assert_eq!(Some(statement.closing), balance);
    let earned = world.store.earnings(world.provider).await.unwrap();
    let month = UtcMonth::of(now).to_string();
    let earned: Vec<_> = earned
        .into_iter()
        .map(|one| (one.month, one.jobs, one.micros))
        .collect();
    assert_eq!(earned, [(month, 1, 1_050)]);
}

#[tokio::test]
async fn a_journal_is_read_page_by_page_and_by_kind() {
    let world = World::new().await;
    three_jobs(&world).await;
    let mut filter = JournalFilter {
        limit: 3,
        ..JournalFilter::default()
    };
    let mut kinds = Vec::new();
    loop {
        let page = world
            .store
            .journal(world.org, filter.clone())
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        filter.before = Some(last.name);
        kinds.extend(page.iter().map(|one| one.name.kind.as_str()));
    }
    let expected = "hold release hold release capture_platform capture_provider hold credit";
    assert_eq!(kinds.join(" "), expected);
    filter = JournalFilter {
        kind: Some(PostingKind::Hold),
        limit: 100,
        ..JournalFilter::default()
    };
    assert_eq!(
        world
            .store
            .journal(world.org, filter.clone())
            .await
            .unwrap()
            .len(),
        3
    );
    let stranger = world.store.create_org("stranger", None).await.unwrap();
    assert_eq!(world.store.journal(stranger, filter).await.unwrap(), []);
}
