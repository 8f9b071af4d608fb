//! Many lists, and the shortest one that still finds what was found.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::Runtime;

use crate::ops::{Step, lists};
use crate::run::run;
use crate::site::Site;

/// The most steps of a list after its opening.
const STEPS: usize = 22;

/// How many lists, and which.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cases {
    pub(crate) seed: u64,
    pub(crate) lists: u32,
    /// How many shorter lists are tried once something is found.
    pub(crate) shrink: u32,
}

/// What came of many lists.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The shortest list that finds something, and what that is.
    pub(crate) found: Option<String>,
    /// How often each kind of call was answered in which way.
    pub(crate) tally: BTreeMap<String, u64>,
}

/// Runs lists until something is found.
pub(crate) fn find(site: impl Future<Output = Site>, cases: Cases) -> Outcome {
    let runtime = Runtime::new().expect("a runtime can be made");
    let (site, eyes) = runtime.block_on(async {
        let site = site.await;
        let eyes = site.eyes().await;
        (site, eyes)
    });
    let eyes = RefCell::new(eyes);
    let config = Config {
        cases: cases.lists,
        max_shrink_iters: cases.shrink,
        failure_persistence: None,
        ..Config::default()
    };
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&cases.seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let found = runner.run(&lists(STEPS), |list| {
        let ran = runtime.block_on(run(&site, &mut eyes.borrow_mut(), &list));
        ran.map_err(TestCaseError::fail)
    });
    // What a find leaves behind must not be checked when the database goes.
    runtime.block_on(site.begin_anew(&mut eyes.borrow_mut()));
    let found = match found {
        Ok(()) => None,
        Err(TestError::Fail(reason, list)) => Some(said(&list, reason.message())),
        Err(TestError::Abort(reason)) => panic!("no lists could be made: {reason}"),
    };
    let tally = site.tally();
    Outcome { found, tally }
}

/// Runs one list that was found before.
pub(crate) fn replay(list: &[Step]) -> Result<(), String> {
    let runtime = Runtime::new().expect("a runtime can be made");
    runtime.block_on(async {
        let site = Site::new().await;
        let mut eyes = site.eyes().await;
        let ran = run(&site, &mut eyes, list).await;
        site.begin_anew(&mut eyes).await;
        ran
    })
}

/// Runs lists that must find nothing, and says how many in how long.
pub(crate) fn nothing_is_found(cases: Cases) -> BTreeMap<String, u64> {
    let started = Instant::now();
    println!("simulation: SEED={} CASES={}", cases.seed, cases.lists);
    let Outcome { found, tally } = find(Site::new(), cases);
    println!(
        "simulation: SEED={} CASES={}: {} finds in {:.1?}",
        cases.seed,
        cases.lists,
        found.iter().count(),
        Duration::from_millis(u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX)),
    );
    println!("{tally:#?}");
    if let Some(found) = found {
        panic!("SEED={}: {found}", cases.seed);
    }
    tally
}

fn said(list: &[Step], what: &str) -> String {
    let steps: Vec<String> = list.iter().map(|step| format!("    {step:?},")).collect();
    format!("[\n{}\n]\n{what}", steps.join("\n"))
}
