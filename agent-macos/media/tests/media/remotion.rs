//! Remotion bundles, rendered by the real renderer in a real browser behind the real wall.

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use fencepost_domain::service::Compositions;
use fencepost_media::fixture::{ffmpeg, remotion_bundle, remotion_folder};
use fencepost_media::{
    Container, FailureCode, MediaFailure, Output, Progress, Remotion, RemotionOverrides, Size,
    capabilities, run,
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

/// With a work folder whose path is as long as an agent's may be, and a limit for the output that no
/// browser could live with.
pub(crate) async fn studio() -> Kit {
    let mut kit = Kit::new().await;
    kit.bench.folder.push("a-long-name-".repeat(15));
    std::fs::create_dir(&kit.bench.folder).expect("a work folder");
    kit.bench.limits.file_bytes = 200_000;
    kit.bench.tools.remotion = Some(remotion());
    kit
}

/// Renders a composition of the tests' own bundle.
pub(crate) async fn render(kit: &Kit, params: Value) -> Result<Output, MediaFailure> {
    let bundle = remotion_bundle();
    let mut all = json!({"encode": {"codec": "h264"}});
    let object = all.as_object_mut().expect("an object");
    object.extend(params.as_object().expect("an object").clone());
    let job = job_of("remotion.render.v1", &[("bundle", &bundle)], &all);
    run(&kit.bench, &job, &|_| ()).await
}

/// The colour of a film in the middle of its frame number `frame`, as red, green and blue.
pub(crate) async fn color(kit: &Kit, film: &Path, frame: u32) -> [u8; 3] {
    let raw = kit.source("pixel.rgb");
    let file = film.to_str().expect("a path of a test");
    let filter = format!("select=eq(n\\,{frame}),crop=8:8,scale=1:1");
    let args = ["-i", file, "-vf", &filter, "-frames:v", "1"];
    let how = ["-pix_fmt", "rgb24", "-f", "rawvideo"];
    let made = ffmpeg(&kit.bench.tools, &[&args[..], &how].concat(), &raw).await;
    made.expect("a pixel");
    let bytes = std::fs::read(&raw).expect("a pixel");
    bytes.try_into().expect("three bytes")
}

#[track_caller]
fn assert_near(found: [u8; 3], wanted: [u8; 3]) {
    let is_near = |(found, wanted): (u8, u8)| found.abs_diff(wanted) <= 12;
    let pairs = found.into_iter().zip(wanted);
    assert!(
        pairs.clone().all(is_near),
        "{found:?} instead of {wanted:?}"
    );
}

#[tokio::test]
async fn remotion_is_offered_where_a_film_of_it_was_drawn_and_nowhere_else() {
    let mut kit = studio().await;
    let offered = async |kit: &Kit| {
        let words = capabilities(&kit.bench).await;
        let words = words.iter().map(|word| word.0.clone());
        words
            .filter(|word| word.starts_with("remotion."))
            .collect::<Vec<_>>()
    };
    let both = ["remotion.inspect.v1", "remotion.render.v1"];
    assert_eq!(offered(&kit).await, both);
    let remotion = kit.bench.tools.remotion.as_mut().expect("it was found");
    remotion.browser = "/bin/false".into();
    assert_eq!(offered(&kit).await, [""; 0]);
}

#[tokio::test]
async fn what_a_bundle_has_is_listed_with_sizes_and_lengths_for_the_properties_given() {
    let kit = studio().await;
    let bundle = remotion_bundle();
    let params = json!({"props": {"width": 642, "frames": 7}});
    let job = job_of("remotion.inspect.v1", &[("bundle", &bundle)], &params);
    let output = run(&kit.bench, &job, &|_| ()).await.expect("a list");
    let text = std::fs::read(&output.file).unwrap();
    let list: Compositions = serde_json::from_slice(&text).unwrap();
    let of = |id: &str| {
        let found = list.compositions.iter().find(|one| one.id == id);
        let found = found.unwrap_or_else(|| panic!("no {id} in {list:?}"));
        (
            found.width,
            found.height,
            found.fps,
            found.duration_in_frames,
        )
    };
    assert_eq!(of("film"), (320, 180, 25.0, 20));
    assert_eq!(of("映画"), (320, 180, 25.0, 20));
    assert_eq!(of("sized"), (642, 181, 25.0, 7));
    let film = list
        .compositions
        .iter()
        .find(|one| one.id == "film")
        .unwrap();
    assert_eq!(film.default_props["color"], json!("#204060"));
}

#[tokio::test]
async fn a_composition_becomes_a_film_of_its_frames_with_the_colours_of_its_properties() {
    let kit = studio().await;
    let bundle = remotion_bundle();
    let params = json!({
        "composition": "film", "props": {"color": "#20a060"},
        "encode": {"codec": "h264", "crf": 10},
    });
    let job = job_of("remotion.render.v1", &[("bundle", &bundle)], &params);
    let seen = Mutex::new(Vec::new());
    let note = |progress: Progress| seen.lock().unwrap().extend(progress.percent);
    let output = run(&kit.bench, &job, &note).await.expect("a film");
    assert_eq!(output.checked.container, Some(Container::Mp4));
    assert_eq!(output.checked.size, Some(Size::new(320, 180)));
    assert_eq!(output.checked.frames, 20);
    assert!(!output.checked.has_audio);
    for frame in [0_u8, 10, 19] {
        let found = color(&kit, &output.file, frame.into()).await;
        assert_near(found, [0x20 + 4 * frame, 0xa0, 0x60]);
    }
    let seen = seen.into_inner().unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert!(
        seen.iter().any(|percent| (1..75).contains(percent)),
        "{seen:?}"
    );
    assert_eq!(seen.last(), Some(&100));
    // Neither the browser's folder nor the master.
    assert_eq!(kit.work_files(), [output.file]);
}

#[tokio::test]
async fn a_part_of_a_composition_is_rendered_in_another_size_rate_and_codec() {
    let kit = studio().await;
    let output = render(
        &kit,
        json!({
            "composition": "映画", "props": {"color": "#204060"},
            "first_frame": 10, "last_frame": 14,
            "encode": {"codec": "vp9", "height": 90, "fps": 50},
        }),
    );
    let output = output.await.expect("a film");
    assert_eq!(output.checked.container, Some(Container::Webm));
    assert_eq!(output.checked.size, Some(Size::new(160, 90)));
    assert_eq!(
        (output.checked.frames, output.checked.fps),
        (10, Some(50.0))
    );
    assert_near(color(&kit, &output.file, 0).await, [0x20 + 40, 0x40, 0x60]);
}

#[tokio::test]
async fn size_and_length_that_properties_decide_are_those_of_the_film_made_even() {
    let kit = studio().await;
    let props = json!({"width": 203, "height": 101, "fps": 10, "frames": 7});
    let output = render(&kit, json!({"composition": "sized", "props": props}));
    let output = output.await.expect("a film");
    assert_eq!(output.checked.size, Some(Size::new(202, 100)));
    assert_eq!((output.checked.frames, output.checked.fps), (7, Some(10.0)));
}

#[tokio::test]
async fn sounds_and_films_of_the_bundle_are_in_the_film() {
    let kit = studio().await;
    let tone = render(&kit, json!({"composition": "tone"}))
        .await
        .expect("a film");
    assert!(tone.checked.has_audio);
    let clip = render(&kit, json!({"composition": "clip"}))
        .await
        .expect("a film");
    assert!(clip.checked.has_audio);
    let [red, _, blue] = color(&kit, &clip.file, 2).await;
    assert!(blue > 180 && red < 80, "{red} {blue}");
    let [red, green, blue] = color(&kit, &clip.file, 15).await;
    assert!(
        red > 180 && green > 180 && blue < 80,
        "{red} {green} {blue}"
    );
    let silent = render(
        &kit,
        json!({"composition": "tone", "encode": {"codec": "h264", "audio": "drop"}}),
    );
    assert!(!silent.await.expect("a film").checked.has_audio);
}

#[tokio::test]
async fn what_a_composition_throws_is_the_buyers_to_mend_and_told_to_them() {
    let kit = studio().await;
    let props = json!({"at": 3, "message": "no such title"});
    let loud = render(&kit, json!({"composition": "loud", "props": props})).await;
    let failure = loud.expect_err("it throws");
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
    assert!(failure.to_string().contains("no such title"), "{failure}");
    let other = render(&kit, json!({"composition": "flim"})).await;
    let failure = other.expect_err("there is none of that name");
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
    assert!(failure.to_string().contains("flim"), "{failure}");
}

#[tokio::test]
async fn a_frame_that_never_gets_ready_is_waited_for_only_so_long() {
    let mut kit = studio().await;
    kit.bench.limits.frame = Duration::from_secs(10);
    let slow = render(&kit, json!({"composition": "slow", "props": {"at": 3}})).await;
    let failure = slow.expect_err("it never ends");
    assert_eq!(failure.code(), Some(FailureCode::Stalled), "{failure}");
    assert!(failure.to_string().contains("delayRender"), "{failure}");
}

#[tokio::test]
async fn a_folder_that_is_no_bundle_is_refused() {
    let kit = studio().await;
    let folder = kit.source("site");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("index.html"), "<h1>hello</h1>").unwrap();
    for says in ["there is no bundle.js", "getStaticCompositions"] {
        let job = job_of("remotion.inspect.v1", &[("bundle", &folder)], &json!({}));
        let failure = run(&kit.bench, &job, &|_| ()).await;
        let failure = failure.expect_err("it is none");
        assert_eq!(failure.code(), Some(FailureCode::InputInvalid), "{failure}");
        assert!(failure.to_string().contains(says), "{failure}");
        std::fs::write(folder.join("bundle.js"), "").unwrap();
    }
}
