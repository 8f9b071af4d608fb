//! What a Mac could try if it did not behave: everything that the loser's secrets are good for.

use std::time::Duration;

use fencepost_protocol::{Code, Disposition, OutputDeclaration};

use super::act_one::Cast;
use super::buyer::{Attempt, Job};
use super::error::{DemoError, require};
use super::impostor::{Impostor, Refusal, StolenLease};
use super::report::Narrator;
use super::stage::Stage;
use super::victim::Victim;

/// How long the real agent may take to end.
const PATIENCE: Duration = Duration::from_secs(12);

/// Plays a Mac that knows all secrets of the loser and does not care that it lost.
pub(super) async fn try_all(
    cast: &Cast<'_>,
    stage: &mut Stage,
    victim: &Victim,
    job: &Job,
    winner: &Attempt,
) -> Result<String, DemoError> {
    let say = cast.say;
    let mac = &mut stage.macs[victim.mac];
    say.tell(&format!(
        "\nThat agent behaves. One that was tampered with would not: so the agent of {} is stopped,\n\
         and the demo takes its place, with its device token and the lease from its state folder.",
        mac.name()
    ));
    require(mac.stop(PATIENCE).await, || {
        "the agent did not stop in order".to_owned()
    })?;
    let mut impostor = Impostor::connect(mac.state_dir()).await?;
    say.step("connected as that Mac, with its own token: the session itself is genuine");
    let link = impostor.ask_for_upload(&victim.lease).await?;
    show(
        say,
        "“grant me a link to upload to”",
        link,
        Code::LeaseConflict,
    )?;
    let late = impostor
        .commit(&victim.lease, own_output(&victim.lease, job))
        .await?;
    show(
        say,
        "its own commit: epoch and secret of its lease, as it was granted",
        late,
        Code::CommitConflict,
    )?;
    let raised = StolenLease {
        lease_epoch: winner.lease_epoch,
        ..victim.lease.clone()
    };
    let raised = impostor
        .commit(&raised, own_output(&victim.lease, job))
        .await?;
    show(
        say,
        "the same under the epoch that is newest by now",
        raised,
        Code::CommitConflict,
    )?;
    let foreign = StolenLease {
        attempt_id: winner.id,
        lease_epoch: winner.lease_epoch,
        ..victim.lease.clone()
    };
    let foreign = impostor
        .commit(&foreign, own_output(&victim.lease, job))
        .await?;
    show(
        say,
        "a commit to the winner's attempt",
        foreign,
        Code::CommitConflict,
    )?;
    impostor.leave().await;
    Ok(late.code.as_str().to_owned())
}

/// The best that it could claim: bytes that would pass every check, in its own place.
fn own_output(lease: &StolenLease, job: &Job) -> OutputDeclaration {
    let (sha256, size_bytes) = job.output.as_ref().map_or_else(Default::default, |output| {
        (output.sha256.clone(), output.size_bytes)
    });
    OutputDeclaration {
        sha256,
        size_bytes,
        object_key: lease.object_key.clone(),
    }
}

fn show(say: Narrator, what: &str, got: Refusal, expected: Code) -> Result<(), DemoError> {
    require(
        got.code == expected && got.disposition == Disposition::Stop,
        || format!("{what} was answered with {got:?}"),
    )?;
    say.refused(&format!("{what} → rejected {}", got.code.as_str()));
    Ok(())
}
