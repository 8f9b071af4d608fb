//! Remotion bundles, rendered by the real renderer in a real browser behind the real wall.

use std::path::Path;

use fencepost_domain::service::Compositions;
use fencepost_media::fixture::{remotion_bundle, remotion_folder};
use fencepost_media::{
    Container, FailureCode, MediaFailure, Output, Remotion, RemotionOverrides, Size, run,
};
use serde_json::{Value, json};

use crate::kit::{Kit, job_of};

/// What a provider has who installed what the page for providers says.
pub(crate) fn remotion() -> Remotion {
    let overrides = RemotionOverrides {
        folder: remotion_folder(),
        node: None,
        browser: None,
    };
    Remotion::find(&overrides).expect("Node, a browser and a wall")
}

pub(crate) async fn studio() -> Kit {
    let mut kit = Kit::new().await;
    kit.bench.tools.remotion = Some(remotion());
    kit
}

async fn render(kit: &Kit, bundle: &Path, params: &Value) -> Result<Output, MediaFailure> {
    let job = job_of("remotion.render.v1", &[("bundle", bundle)], params);
    run(&kit.bench, &job, &|_| ()).await
}

#[tokio::test]
async fn what_a_bundle_has_is_listed_with_sizes_and_lengths() {
    let kit = studio().await;
    let bundle = remotion_bundle();
    let job = job_of("remotion.inspect.v1", &[("bundle", &bundle)], &json!({}));
    let output = run(&kit.bench, &job, &|_| ()).await.expect("a list");
    let text = std::fs::read(&output.file).unwrap();
    let list: Compositions = serde_json::from_slice(&text).unwrap();
    println!("{}", String::from_utf8_lossy(&text));
    let film = list.compositions.iter().find(|one| one.id == "film");
    let film = film.expect("the film is in it");
    assert_eq!((film.width, film.height), (320, 180));
    assert_eq!((film.fps, film.duration_in_frames), (25.0, 20));
}

#[tokio::test]
async fn a_composition_becomes_a_film() {
    let kit = studio().await;
    let params = json!({"composition": "film", "encode": {"codec": "h264"}});
    let output = render(&kit, &remotion_bundle(), &params)
        .await
        .expect("a film");
    assert_eq!(output.checked.container, Some(Container::Mp4));
    assert_eq!(output.checked.size, Some(Size::new(320, 180)));
    assert_eq!(output.checked.frames, 20);
    let _ = FailureCode::Stalled;
}
