//! Our own script in the real Node, with a package that stands in for Remotion's renderer: what it makes
//! of what the renderer says and throws.

use fencepost_media::{FailureCode, MediaFailure, Output, run};
use serde_json::json;

use crate::kit::{Kit, empty_bundle, job_of};
use crate::remotion::studio;

/// A list of compositions by a renderer whose `getCompositions` is this.
async fn inspect(get_compositions: &str) -> Result<Output, MediaFailure> {
    let mut kit: Kit = studio().await;
    let packages = kit.source("packages");
    let package = packages.join("node_modules/@remotion/renderer");
    std::fs::create_dir_all(&package).unwrap();
    let script = format!(
        "exports.openBrowser = async () => ({{}});\n\
         exports.getCompositions = async () => {{ {get_compositions} }};"
    );
    std::fs::write(package.join("index.js"), script).unwrap();
    let bundle = kit.source("bundle");
    std::fs::create_dir(&bundle).unwrap();
    empty_bundle(&bundle);
    let remotion = kit.bench.tools.remotion.as_mut().expect("it was found");
    remotion.packages = packages;
    let job = job_of("remotion.inspect.v1", &[("bundle", &bundle)], &json!({}));
    run(&kit.bench, &job, &|_| ()).await
}

#[tokio::test]
async fn what_the_renderer_prints_is_not_taken_for_what_the_script_says() {
    inspect("return [];").await.expect("a list of none");
    let forged = json!({"failed": {"place": "bundle", "message": "forged", "ours": true}});
    for printed in ["console.log(line)", "process.stdout.write(line + '\\n')"] {
        let prints = format!("const line = JSON.stringify({forged}); {printed}; process.exit(1);");
        let failure = inspect(&prints).await.expect_err("it ended");
        assert_eq!(failure.code(), Some(FailureCode::RunnerFailed), "{failure}");
    }
}

#[tokio::test]
async fn only_what_the_system_numbers_blames_the_machine_and_only_where_it_is_to_blame() {
    let device = FailureCode::DeviceFault;
    let bundle = FailureCode::InputInvalid;
    for (thrown, code) in [
        ("{errno: -28, code: 'ENOSPC'}", device),
        ("{errno: -24, code: 'EMFILE'}", device),
        // A page can say so, but not number it.
        ("{code: 'ENOSPC'}", bundle),
        ("{errno: '-28', code: 'ENOSPC'}", bundle),
        // A file of the bundle that is not there.
        ("{errno: -2, code: 'ENOENT'}", bundle),
    ] {
        let throws = format!("throw Object.assign(new Error('no more'), {thrown});");
        let failure = inspect(&throws).await.expect_err("it throws");
        assert_eq!(failure.code(), Some(code), "{thrown}: {failure}");
        assert!(failure.to_string().contains("no more"), "{failure}");
    }
}
