//! Mistakes that are built in on purpose are found. One that is not is a hole in the simulation.

use std::time::Duration;

use fencepost_store::fence::FenceMode;
use fencepost_tests::world::SERVICES;

use crate::call::{Call, Pair};
use crate::cases::{Cases, find};
use crate::drive::{Driven, Driver};
use crate::reference::Reference;
use crate::site::Site;

/// A mistake of a gateway's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// It puts the current epoch and secret in the place of those that were presented.
    StaleIsCurrent,
    /// It sweeps by a clock that runs ahead.
    SweepsEarly,
    /// It settles what another gateway has taken over.
    OldVerdictCounts,
    /// It asks as somebody new after a COMMIT that was not answered.
    AsksTwice,
}

impl Planted {
    pub(crate) async fn drive(self, driver: &Driver<'_>, call: &Call, world: &Reference) -> Driven {
        let mut call = call.clone();
        match (self, &mut call) {
            (
                Self::StaleIsCurrent,
                Call::Progress { claim, .. }
                | Call::Commit { claim, .. }
                | Call::End { claim, .. }
                | Call::Event { claim, .. }
                | Call::Grant(claim),
            ) => {
                let row = &world.attempts[&claim.at].row;
                let is_late = claim.pair.epoch < row.lease.epoch;
                if is_late && row.writer.is_none() {
                    claim.pair = Pair::minted(row.lease.token);
                    claim.pair.epoch = row.lease.epoch;
                }
            }
            (Self::SweepsEarly, Call::Sweep) => {
                let clock = driver.site.clock();
                clock.advance(Duration::from_secs(1)).await;
                let swept = driver.store.expire_due(100, &SERVICES).await;
                clock.go_back(Duration::from_secs(1)).await;
                swept?;
            }
            (Self::OldVerdictCounts, Call::Settle { at, pickup, .. }) => {
                *pickup = world.attempts[at].row.pickup;
            }
            (Self::AsksTwice, Call::Round { .. }) => {
                driver.drive(&call).await?;
            }
            _ => {}
        }
        driver.drive(&call).await
    }
}

async fn planted(mistake: Planted) -> Site {
    let mut site = Site::new().await;
    site.planted = Some(mistake);
    site
}

fn is_found(mistake: Planted) {
    let cases = Cases {
        seed: 1,
        lists: 500,
        shrink: 60,
    };
    let found = find(planted(mistake), cases).found;
    let list = found.expect("a planted mistake is found");
    println!("{mistake:?} was found by\n{list}");
}

#[test]
fn a_stale_epoch_that_is_taken_for_the_current_one_is_found() {
    is_found(Planted::StaleIsCurrent);
}

#[test]
fn a_sweep_by_a_clock_that_runs_ahead_is_found() {
    is_found(Planted::SweepsEarly);
}

#[test]
fn a_verdict_that_settles_what_another_gateway_took_over_is_found() {
    is_found(Planted::OldVerdictCounts);
}

#[test]
fn a_round_that_is_asked_twice_after_an_unknown_commit_is_found() {
    is_found(Planted::AsksTwice);
}

#[test]
fn half_a_fence_alone_refuses_the_same() {
    let site = async { Site::new().await.with_fence(FenceMode::OnlyPure) };
    let cases = Cases {
        seed: 2,
        lists: 10,
        shrink: 200,
    };
    assert_eq!(find(site, cases).found, None);
}
