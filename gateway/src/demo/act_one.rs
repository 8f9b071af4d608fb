//! Act one: a buyer's file comes back transcoded, and costs what it should.

use std::path::{Path, PathBuf};

use fencepost_domain::ids::JobId;
use fencepost_media::{Probe, Workbench, probe};
use serde_json::{Value, json};

use super::buyer::{Buyer, Job};
use super::error::{DemoError, require};
use super::follow;
use super::report::{self, Narrator};

/// What the first job asks for.
const HEIGHT: u32 = 480;
/// What is paid for at most, if the file is not longer; a minute more than is needed shows what
/// becomes of the rest of the hold.
const USUAL_SECONDS: u32 = 600;
/// Frames begin and end where they do: lengths differ by a little.
const LENGTH_SLACK: f64 = 0.6;

/// A job that succeeded, and its output as the buyer has it.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) job: JobId,
    pub(super) file: PathBuf,
    pub(super) sha256: String,
}

impl Delivered {
    pub(super) fn as_json(&self) -> Value {
        json!({ "job_id": self.job, "output": self.file, "output_sha256": self.sha256 })
    }
}

/// Who watches and works in both acts.
pub(super) struct Cast<'a> {
    pub(super) buyer: &'a Buyer,
    pub(super) bench: &'a Workbench,
    pub(super) say: Narrator,
    /// Where outputs are put.
    pub(super) output_dir: &'a Path,
}

/// Runs the act with this input, which is what `source` says.
pub(super) async fn run(
    cast: &Cast<'_>,
    input: &Path,
    source: &Probe,
) -> Result<Delivered, DemoError> {
    let say = cast.say;
    say.title("Act one: a job, from the buyer's file to the buyer's file");
    let bytes = tokio::fs::metadata(input).await?.len();
    say.tell(&format!("The input: {}", report::media(source, bytes)));
    let (spendable, _) = cast.buyer.balance().await?;
    let upload = cast.buyer.upload(input).await?;
    let params = json!({ "codec": "h264", "height": HEIGHT });
    let most = USUAL_SECONDS.max(whole_seconds(source).saturating_add(60));
    let job = cast.buyer.submit(upload, &params, most).await?;
    say.step(&format!(
        "uploaded, and ordered transcode.v1 {params}: job {}",
        job.id
    ));
    let job = follow::to_the_end(cast.buyer, job.id, say).await?;
    let delivered = deliver(cast, &job, "act-one.mp4").await?;
    let made = probe(cast.bench, &delivered.file).await?;
    check_media(&made, source)?;
    let size = tokio::fs::metadata(&delivered.file).await?.len();
    say.checked(&format!("what came out: {}", report::media(&made, size)));
    say.checked(&format!("it is in {}", delivered.file.display()));
    check_money(cast.buyer, &job, spendable).await?;
    say.checked(&format!("the money: {}", report::money(&job.money)));
    Ok(delivered)
}

/// Downloads the output of a job that must have succeeded, and compares it with what was verified.
pub(super) async fn deliver(
    cast: &Cast<'_>,
    job: &Job,
    name: &str,
) -> Result<Delivered, DemoError> {
    require(job.status == "succeeded", || {
        let why = job
            .failure
            .as_ref()
            .map_or_else(String::new, Value::to_string);
        format!("the job {} has {}: {why}", job.id, job.status)
    })?;
    let verified = job.output.as_ref();
    let verified = verified.ok_or_else(|| DemoError::untrue("a succeeded job has no output"))?;
    let file = cast.output_dir.join(name);
    let came = cast.buyer.download(job.id, &file).await?;
    require(came == *verified, || {
        format!("what was downloaded, {came:?}, is not what was verified, {verified:?}")
    })?;
    Ok(Delivered {
        job: job.id,
        file,
        sha256: came.sha256,
    })
}

/// The hold is captured or given back to the last micro, and the balance agrees. `spendable` is
/// what it was before the job.
pub(super) async fn check_money(buyer: &Buyer, job: &Job, spendable: i64) -> Result<(), DemoError> {
    let money = &job.money;
    require(money.captured > 0, || "nothing was captured".to_owned())?;
    require(money.held == money.captured + money.released, || {
        format!("the hold does not add up: {}", report::money(money))
    })?;
    let (left, held) = buyer.balance().await?;
    require(spendable - left == money.captured && held == 0, || {
        let paid = spendable - left;
        format!(
            "{paid} micros were paid and {held} are still held: {}",
            report::money(money)
        )
    })
}

fn check_media(made: &Probe, source: &Probe) -> Result<(), DemoError> {
    let video = made.main_video();
    let is_ordered =
        video.is_some_and(|video| video.codec == "h264" && video.displayed.height == HEIGHT);
    require(is_ordered, || {
        format!("h264 of height {HEIGHT} was ordered; this came: {video:?}")
    })?;
    let lengths = made.duration_seconds.zip(source.expected_seconds(true));
    require(
        lengths.is_none_or(|(made, expected)| (made - expected).abs() <= LENGTH_SLACK),
        || format!("the lengths differ: {lengths:?}"),
    )
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped into the range first"
)]
fn whole_seconds(source: &Probe) -> u32 {
    let seconds = source.expected_seconds(true).unwrap_or(0.0);
    seconds.ceil().clamp(0.0, 80_000.0) as u32
}
