//! Proves that Remotion bundles can be rendered here, by rendering one of our own: three frames of
//! one colour each.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use fencepost_domain::bundle::INDEX;
use fencepost_domain::service::{Capability, ServiceName, ServiceParams};
use serde_json::{Value, json};

use super::first_picture;
use crate::work::{Job, Partial, run};
use crate::{Limits, Workbench};

const PAGE: &str = include_str!("../remotion/trial.html");
const BUNDLE: &str = "trial-bundle";
/// A browser's first start on a machine may be slow.
const TRIAL_TIME: Duration = Duration::from_mins(1);

/// The services of Remotion, if all of them work here with an encoder of this codec; none if nothing
/// to render with was named.
pub(super) async fn proven(
    bench: &Workbench,
    codec: &str,
    encoders: &BTreeSet<Capability>,
) -> Vec<Capability> {
    let Some(remotion) = &bench.tools.remotion else {
        return Vec::new();
    };
    let bench = Workbench {
        limits: Limits {
            run_time: TRIAL_TIME,
            ..bench.limits.clone()
        },
        ..bench.clone()
    };
    let props = json!({ "version": remotion.version });
    let list = json!({ "props": props });
    let film = json!({ "props": props, "composition": "trial", "encode": { "codec": codec } });
    let mut words = Vec::new();
    for (service, params) in [
        (ServiceName::RemotionInspectV1, list),
        (ServiceName::RemotionRenderV1, film),
    ] {
        let word = service.as_str();
        match attempt(&bench, (service, &params), encoders).await {
            Ok(()) => words.push(Capability::new(word)),
            // Asked for by whoever named it, so they should hear that it is not to be had.
            Err(why) => {
                tracing::warn!(
                    why,
                    "no service of Remotion is offered: {word} does not work here with this node and \
                     browser"
                );
                return Vec::new();
            }
        }
    }
    words
}

async fn attempt(
    bench: &Workbench,
    (service, params): (ServiceName, &Value),
    encoders: &BTreeSet<Capability>,
) -> Result<(), String> {
    let folder = bench.folder.join(BUNDLE);
    write_bundle(&folder).map_err(|error| error.to_string())?;
    let params = ServiceParams::parse(service, params).map_err(|error| error.to_string())?;
    let job = Job {
        params,
        inputs: BTreeMap::from([("bundle".to_owned(), folder)]),
        max_output_seconds: 5,
        proven: encoders.clone(),
    };
    let output = run(bench, &job, &|_| ()).await;
    let file = Partial::new(output.map_err(|failure| failure.message().to_owned())?.file);
    if service == ServiceName::RemotionRenderV1 && !begins_red(bench, &file.path).await? {
        return Err("another picture is drawn than the page shows".to_owned());
    }
    Ok(())
}

/// The page, and an empty script in which Remotion looks for a map of its source.
fn write_bundle(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(INDEX), PAGE)?;
    std::fs::write(folder.join("bundle.js"), "")
}

async fn begins_red(bench: &Workbench, file: &Path) -> Result<bool, String> {
    let picture = first_picture(bench, file, ("rgb24", 64 * 64 * 3)).await?;
    let is_red = |pixel: &[u8]| pixel[0] > 200 && pixel[1] < 80 && pixel[2] < 80;
    Ok(picture.len() == 64 * 64 * 3 && picture.chunks_exact(3).all(is_red))
}
