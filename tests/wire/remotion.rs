//! Remotion over the whole road: a bundle on a buyer's host, a Mac that renders it, a verifier that
//! believes nothing, and a film that is paid for.

use fencepost_domain::service::Compositions;
use fencepost_media::fixture::{remotion_bundle, remotion_folder};
use fencepost_media::{Container, Limits, Overrides, Size, StopSignal, Tools, Workbench, probe};
use fencepost_tests::agent_process::AgentProcess;
use fencepost_tests::buyer::{Buyer, text};
use fencepost_tests::folder_host::FolderHost;
use fencepost_tests::gateway::TO_THIS_MACHINE;
use fencepost_tests::terminal::Terminal;
use fencepost_tests::wait::until;
use fencepost_tests::{Site, TestGateway};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Bundles of the tests are larger than their other inputs.
const ROOM: (&str, &str) = ("artifacts.max_upload_bytes", "50000000");

/// A gateway, a Mac that renders, a buyer, and the buyer's host with a bundle on it.
struct Studio {
    // In the order in which they end.
    agent: AgentProcess,
    buyer: Buyer,
    _gateway: TestGateway,
    site: Site,
    bundle: Value,
    _host: FolderHost,
    _folder: TempDir,
}

impl Studio {
    async fn open() -> Self {
        let site = Site::new().await;
        let gateway = site.gateway_with(&[TO_THIS_MACHINE, ROOM]).await;
        let terminal = Terminal::new(&gateway.url, &site.api_key);
        let renderer = remotion_folder().display().to_string();
        let agent = site.agent(&gateway.url, "mac").await;
        let mut agent = agent.with(&["--remotion", &renderer]);
        agent.start();
        agent.is_connected().await;
        // The manifest beside the bundle that all tests share, not in it.
        let folder = TempDir::new().expect("a folder");
        let dist = folder.path().join("dist");
        let copied = std::process::Command::new("cp")
            .arg("-R")
            .args([&remotion_bundle(), &dist])
            .status();
        assert!(copied.expect("cp").success());
        let dist = dist.display().to_string();
        let manifest = terminal
            .told(&["bundle", "manifest", &dist])
            .await
            .remove(0);
        let host = FolderHost::start(folder.path()).await;
        let bundle = json!({
            "url": host.url("dist/fencepost.json"), "sha256": manifest["sha256"],
        });
        Self {
            agent,
            buyer: site.buyer(&gateway),
            _gateway: gateway,
            site,
            bundle,
            _host: host,
            _folder: folder,
        }
    }

    fn order(&self, service: &str, params: &Value) -> Value {
        json!({ "service": service, "params": params, "inputs": { "bundle": self.bundle } })
    }
}

#[tokio::test]
async fn a_bundle_of_the_buyers_host_is_inspected_and_rendered_verified_and_paid() {
    let mut studio = Studio::open().await;
    let buyer = &studio.buyer;
    let inspect = studio.order("remotion.inspect.v1", &json!({}));
    let job = buyer.submit(&inspect).await;
    let seen = buyer.until(&job, "succeeded").await;
    let list: Compositions = serde_json::from_slice(&buyer.download(&job).await).expect("a list");
    assert!(list.compositions.iter().any(|one| one.id == "film"));
    // A list has no length, so nothing is paid for one.
    assert_eq!(seen["output"]["duration_seconds"], 0.0, "{seen}");

    let params = json!({
        "composition": "tone", "props": {"color": "#204060"}, "encode": {"codec": "h264"},
    });
    let job = buyer
        .submit(&studio.order("remotion.render.v1", &params))
        .await;
    let seen = buyer.until(&job, "succeeded").await;
    let seconds = seen["output"]["duration_seconds"]
        .as_f64()
        .expect("a length");
    assert!((0.7..0.95).contains(&seconds), "{seen}");
    let film = buyer.download(&job).await;
    let found = look(&film).await;
    assert_eq!(found, (Container::Mp4, Size::new(320, 180), 1));
    assert_eq!(studio.site.statuses(&job).await, "succeeded: succeeded");

    let params = json!({
        "composition": "loud", "props": {"at": 1, "message": "no such title"},
        "encode": {"codec": "h264"},
    });
    let job = buyer
        .submit(&studio.order("remotion.render.v1", &params))
        .await;
    let seen = buyer.until(&job, "failed").await;
    assert_eq!(seen["failure"]["code"], "input_invalid", "{seen}");
    assert!(
        text(&seen["failure"]["message"]).contains("no such title"),
        "{seen}"
    );
    studio.agent.is_idle().await;
}

/// Container, size and number of sounds.
async fn look(film: &[u8]) -> (Container, Size, usize) {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("film");
    std::fs::write(&file, film).expect("it can be written");
    let bench = Workbench {
        tools: Tools::find(&Overrides::default()).await.expect("FFmpeg"),
        folder: folder.path().to_owned(),
        limits: Limits::default(),
        stop: StopSignal::new(),
    };
    let found = probe(&bench, &file).await.expect("a film");
    (found.container, found.video[0].displayed, found.audio.len())
}

#[tokio::test]
async fn a_render_that_is_cancelled_leaves_no_browser_and_publishes_nothing() {
    let mut studio = Studio::open().await;
    let buyer = &studio.buyer;
    let params = json!({
        "composition": "sized", "encode": {"codec": "h264"},
        "props": {"width": 1280, "height": 720, "fps": 25, "frames": 10_000},
    });
    let job = buyer
        .submit(&studio.order("remotion.render.v1", &params))
        .await;
    let folder = studio.agent.path("work").display().to_string();
    let mark = format!("FENCEPOST_WORK={folder}");
    until("a browser draws", async || !marked(&mark).is_empty()).await;
    buyer.cancel(&job).await;
    buyer.until(&job, "cancelled").await;
    studio.agent.is_idle().await;
    until("nothing of it runs", async || marked(&mark).is_empty()).await;
}

/// Processes whose environment has a variable that begins so.
fn marked(beginning: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let marked = processes.filter_map(|process| {
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        let is_marked = variables.any(|variable| variable.starts_with(beginning.as_bytes()));
        is_marked.then(|| process.file_name().to_string_lossy().into_owned())
    });
    marked.collect()
}
