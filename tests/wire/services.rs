//! Every service of the catalogue over the whole road: ordered, done by a real agent, verified, paid
//! for, fetched; refused where it must be; and never taken for done when it is not.

use fencepost_media::fixture::ffmpeg;
use fencepost_media::{
    Container, Limits, Overrides, Probe, Size, StopSignal, Tools, Workbench, probe,
};
use fencepost_protocol::{Code, GatewayFrame};
use fencepost_tests::agent_frames::commit;
use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::buyer::{Buyer, film};
use fencepost_tests::gateway::CREDIT;
use fencepost_tests::{Site, TestGateway};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

const CAPTIONS: &[u8] = b"1\n00:00:00,200 --> 00:00:01,500\nHello\n";

/// FFmpeg and a folder.
struct Bench {
    bench: Workbench,
    folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let folder = TempDir::new().expect("a folder can be made");
        let bench = Workbench {
            tools: Tools::find(&Overrides::default()).await.expect("FFmpeg"),
            folder: folder.path().to_owned(),
            limits: Limits::default(),
            stop: StopSignal::new(),
        };
        Self { bench, folder }
    }

    /// A file that FFmpeg makes of these arguments.
    async fn make(&self, name: &str, arguments: &str) -> Vec<u8> {
        let file = self.folder.path().join(name);
        let arguments: Vec<_> = arguments.split(' ').collect();
        let made = ffmpeg(&self.bench.tools, &arguments, &file).await;
        made.expect("a file of a test");
        std::fs::read(file).expect("it was made")
    }

    /// What a film or a sound is.
    async fn look(&self, bytes: &[u8]) -> Probe {
        let file = self.folder.path().join("seen");
        std::fs::write(&file, bytes).expect("it can be written");
        probe(&self.bench, &file).await.expect("a readable file")
    }
}

/// A gateway with one real agent and one buyer, and a bench to make and look at files.
struct Shop {
    // In the order in which they end.
    agent: AgentProcess,
    buyer: Buyer,
    _gateway: TestGateway,
    _site: Site,
    bench: Bench,
}

impl Shop {
    async fn open() -> Self {
        let site = Site::new().await;
        let gateway = site.gateway().await;
        let mut agent = site.agent(&gateway.url, "mac").await;
        agent.start();
        Self {
            agent,
            buyer: site.buyer(&gateway),
            _gateway: gateway,
            _site: site,
            bench: Bench::new().await,
        }
    }
}

/// The inputs of an order, sent.
async fn sent(buyer: &Buyer, files: &[(&str, &[u8])]) -> Value {
    let mut inputs = json!({});
    for (name, bytes) in files {
        inputs[*name] = json!({ "upload_id": buyer.upload(bytes).await });
    }
    inputs
}

fn order(service: &str, params: &Value, inputs: &Value) -> Value {
    json!({ "service": service, "params": params, "inputs": inputs })
}

/// Orders, waits for the success, and gives the job and its output.
async fn done(buyer: &Buyer, order: &Value) -> (Value, Vec<u8>) {
    let job = buyer.submit(order).await;
    let seen = buyer.until(&job, "succeeded").await;
    (seen, buyer.download(&job).await)
}

/// Orders, and waits for the failure.
async fn failed(buyer: &Buyer, order: &Value) -> Value {
    let job = buyer.submit(order).await;
    buyer.until(&job, "failed").await["failure"].clone()
}

fn seconds(job: &Value) -> f64 {
    job["output"]["duration_seconds"]
        .as_f64()
        .unwrap_or_else(|| panic!("no length: {job}"))
}

#[tokio::test]
async fn a_real_agent_stitches_burns_and_assembles_films() {
    let mut shop = Shop::open().await;
    let (buyer, bench) = (&shop.buyer, &shop.bench);
    let (wide, tall) = (film(2, 128, 72).await, film(2, 64, 96).await);

    let clips = [("clip_1", &wide[..]), ("clip_2", &tall[..])];
    let params = json!({
        "encode": { "codec": "h264" },
        "clips": [
            { "input": "clip_2" },
            { "input": "clip_1", "end_seconds": 1 },
            { "input": "clip_2", "start_seconds": 1 },
        ],
    });
    let inputs = sent(buyer, &clips).await;
    let (job, output) = done(buyer, &order("stitch_export.v1", &params, &inputs)).await;
    assert!((3.8..4.3).contains(&seconds(&job)), "{job}");
    let seen = bench.look(&output).await;
    // As large as the first clip that is shown.
    assert_eq!(seen.video[0].displayed, Size::new(64, 96));
    assert_eq!(seen.audio.len(), 1);

    let files = [("source", &wide[..]), ("captions", CAPTIONS)];
    let inputs = sent(buyer, &files).await;
    let params = json!({ "encode": { "codec": "h264", "height": 144 }, "position": "top" });
    let (_, burnt) = done(buyer, &order("caption_burn.v1", &params, &inputs)).await;
    let seen = bench.look(&burnt).await;
    assert_eq!(seen.video[0].displayed, Size::new(256, 144));
    assert_eq!(seen.captions.len(), 0);

    let files = [
        ("video", &wide[..]),
        ("audio", &tall[..]),
        ("captions", CAPTIONS),
    ];
    let inputs = sent(buyer, &files).await;
    let (_, whole) = done(buyer, &order("assemble.v1", &json!({}), &inputs)).await;
    let seen = bench.look(&whole).await;
    assert_eq!((seen.video.len(), seen.audio.len()), (1, 1));
    assert_eq!(seen.captions, ["mov_text"]);
    assert_eq!(seen.video[0].displayed, Size::new(128, 72));
    shop.agent.is_idle().await;
}

#[tokio::test]
async fn a_real_agent_mixes_sounds_and_takes_pictures_which_cost_what_was_said() {
    let mut shop = Shop::open().await;
    let (buyer, bench) = (&shop.buyer, &shop.bench);
    let tone = bench
        .make("tone.wav", "-f lavfi -i sine=frequency=300:duration=3")
        .await;
    let clip = film(2, 128, 72).await;

    let inputs = sent(buyer, &[("track_1", &tone), ("track_2", &clip)]).await;
    let params = json!({ "tracks": [
        { "input": "track_1", "gain_db": -6 },
        { "input": "track_2", "start_seconds": 2 },
    ] });
    let (job, mix) = done(buyer, &order("audio_mix.v1", &params, &inputs)).await;
    assert!((3.9..4.2).contains(&seconds(&job)), "{job}");
    let seen = bench.look(&mix).await;
    assert_eq!((seen.container, seen.video.len()), (Container::Mp4, 0));
    assert_eq!(seen.audio[0].codec, "aac");

    let (before, _) = buyer.balance().await;
    let inputs = sent(buyer, &[("source", &clip)]).await;
    let params = json!({ "at_seconds": 1, "width": 64 });
    let still = order("thumbnail.v1", &params, &inputs);
    let (status, quote) = buyer.post("/v1/quotes", &still).await;
    assert_eq!(status, StatusCode::OK, "{quote}");
    let (job, picture) = done(buyer, &still).await;
    assert!(picture.starts_with(&[0xff, 0xd8, 0xff]), "no jpeg");
    assert_eq!(job["output"]["duration_seconds"], json!(0.0));
    let (after, held) = buyer.balance().await;
    // It has no length, so nothing but its base price was held and is paid.
    assert_eq!(
        (quote["hold_micros"].as_i64(), held),
        (Some(before - after), 0)
    );
    shop.agent.is_idle().await;
}

#[tokio::test]
async fn inputs_that_a_service_cannot_use_fail_the_job_by_name_and_cost_nothing() {
    let mut shop = Shop::open().await;
    let (buyer, bench) = (&shop.buyer, &shop.bench);
    let tone = bench
        .make("tone.wav", "-f lavfi -i sine=frequency=300:duration=1")
        .await;
    let silent = bench
        .make(
            "silent.mp4",
            "-f lavfi -i testsrc=size=64x48:rate=25:duration=1",
        )
        .await;
    let clip = film(1, 64, 48).await;
    let playlist = b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1/a.ts\n";
    let h264 = json!({ "encode": { "codec": "h264" } });
    let late = json!({ "at_seconds": 60 });
    let none = json!({});
    for (service, params, files, word) in [
        (
            "stitch_export.v1",
            &h264,
            &[("clip_1", &clip[..]), ("clip_2", &tone)][..],
            "clip_2",
        ),
        (
            "caption_burn.v1",
            &h264,
            &[("source", &clip[..]), ("captions", playlist)],
            "captions",
        ),
        (
            "assemble.v1",
            &none,
            &[("video", &clip[..]), ("audio", &silent)],
            "audio",
        ),
        (
            "audio_mix.v1",
            &none,
            &[("track_1", &tone[..]), ("track_2", &silent)],
            "track_2",
        ),
        (
            "thumbnail.v1",
            &late,
            &[("source", &clip[..])],
            "at_seconds",
        ),
    ] {
        let inputs = sent(buyer, files).await;
        let failure = failed(buyer, &order(service, params, &inputs)).await;
        assert_eq!(failure["code"], "input_invalid", "{service}: {failure}");
        let message = failure["message"].as_str().expect("a message");
        assert!(message.contains(word), "{service}: {message}");
    }
    assert_eq!(buyer.balance().await, (CREDIT, 0));
    shop.agent.is_idle().await;
}

#[tokio::test]
async fn orders_that_do_not_fit_are_refused_by_their_field_before_anything_is_held() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let upload = json!({ "upload_id": buyer.upload(b"bytes").await });
    let one = json!({ "clip_1": upload });
    let h264 = json!({ "codec": "h264" });
    for (service, params, inputs, field) in [
        (
            "stitch_export.v1",
            json!({ "encode": h264, "clips": [{ "input": "clip_2" }] }),
            one.clone(),
            "params.clips[0].input",
        ),
        (
            "stitch_export.v1",
            json!({ "encode": { "codec": "h264", "height": 301 } }),
            one.clone(),
            "params.encode.height",
        ),
        ("stitch_export.v1", json!({}), one.clone(), "params.encode"),
        (
            "stitch_export.v1",
            json!({ "encode": h264 }),
            json!({}),
            "inputs.clip_1",
        ),
        (
            "stitch_export.v1",
            json!({ "encode": h264 }),
            json!({ "clip_01": upload }),
            "inputs.clip_01",
        ),
        (
            "assemble.v1",
            json!({}),
            json!({ "video": upload }),
            "inputs.audio",
        ),
        (
            "audio_mix.v1",
            json!({ "tracks": [{ "input": "track_1", "gain_db": 13 }] }),
            json!({ "track_1": upload }),
            "params.tracks[0].gain_db",
        ),
        (
            "thumbnail.v1",
            json!({ "at": 1 }),
            json!({ "source": upload }),
            "params.at",
        ),
    ] {
        let order = order(service, &params, &inputs);
        for path in ["/v1/quotes", "/v1/jobs"] {
            let (status, problem) = buyer.post(path, &order).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{problem}");
            assert_eq!(problem["field"], field, "{problem}");
        }
    }
    assert_eq!(buyer.balance().await, (CREDIT, 0));
}

#[tokio::test]
async fn an_output_of_another_kind_than_was_ordered_is_not_taken() {
    let bench = Bench::new().await;
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let mut device = site.device(&gateway, "mac").await;
    for word in ["thumbnail.v1", "audio_mix.v1", "assemble.v1"] {
        device.words.push(word.to_owned());
    }
    let mut session = device.connect(&gateway).await;
    let png = bench
        .make("a.png", "-f lavfi -i testsrc=size=64x48:rate=1:duration=1")
        .await;
    let jpeg = bench
        .make(
            "a.jpg",
            "-f lavfi -i testsrc=size=64x48:rate=1:duration=1 -pix_fmt yuvj420p",
        )
        .await;
    let clip = film(1, 64, 48).await;
    let upload = json!({ "upload_id": buyer.upload(&clip).await });
    let source = json!({ "source": upload });
    let small = json!({ "width": 32, "height": 24 });
    let tracks = json!({ "track_1": upload });
    let both = json!({ "video": upload, "audio": upload });
    for (service, params, inputs, wrong) in [
        ("thumbnail.v1", &json!({}), &source, &png),
        ("thumbnail.v1", &small, &source, &jpeg),
        ("thumbnail.v1", &json!({}), &source, &clip),
        (
            "thumbnail.v1",
            &json!({}),
            &source,
            &jpeg[..jpeg.len() / 2].to_vec(),
        ),
        ("audio_mix.v1", &json!({}), &tracks, &clip),
        ("audio_mix.v1", &json!({}), &tracks, &jpeg),
        ("assemble.v1", &json!({}), &both, &png),
    ] {
        let job = buyer.submit(&order(service, params, inputs)).await;
        let (offer, output) = session.lease_and_upload(&gateway, wrong).await;
        match session.ask(commit(&offer, &output)).await {
            GatewayFrame::CommitRejected { code, .. } => {
                assert_eq!(code, Code::VerificationFailed, "{service}");
            }
            other => panic!("{service} {params}: {other:?}"),
        }
        assert_eq!(
            buyer.job(&job).await["failure"]["code"],
            "verification_failed"
        );
    }
    // What was ordered is taken, so it was the kind alone that was refused.
    let job = buyer
        .submit(&order("thumbnail.v1", &json!({}), &source))
        .await;
    let (offer, output) = session.lease_and_upload(&gateway, &jpeg).await;
    let answer = session.ask(commit(&offer, &output)).await;
    fencepost_tests::agent_frames::assert_won(&answer);
    assert_eq!(buyer.download(&job).await, jpeg);
}

#[tokio::test]
async fn a_job_whose_service_no_mac_has_proven_waits_and_says_what_is_missing() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let _session = site.device(&gateway, "mac").await.connect(&gateway).await;
    let inputs = sent(&buyer, &[("source", b"film"), ("captions", CAPTIONS)]).await;
    let params = json!({ "encode": { "codec": "h264" } });
    let job = buyer
        .submit(&order("caption_burn.v1", &params, &inputs))
        .await;
    let seen = buyer.job(&job).await;
    assert_eq!(seen["waiting"]["reason"], "no_capable_device", "{seen}");
    assert_eq!(
        seen["waiting"]["missing"],
        json!(["caption_burn.v1"]),
        "{seen}"
    );
}
