//! What a buyer's address must not reach: this machine and its network.

use fencepost_agent::transfer::StepError;

use super::{SECRET, at, run, whole};
use crate::scripted::{Scripted, network, network_with};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_within_is_reached_in_any_spelling_also_where_the_gateway_is_within() {
    let server = Scripted::start(vec![whole()]).await;
    let port = server.address.as_str().trim_end_matches('/');
    let port = port.rsplit(':').next().unwrap();
    // The gateway itself is on this machine, and its own links are fetched without the guard.
    let strict = network(&server.address);
    for host in [
        "127.0.0.1",
        "127.1",
        "0",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[fe81::1]",
        "169.254.169.254",
        "100.64.0.1",
        "localhost",
        "localhost.",
        "me:word@127.0.0.1",
        "8.8.8.8@127.0.0.1",
    ] {
        for scheme in ["http", "https"] {
            let url = format!("{scheme}://{host}:{port}/in?{SECRET}");
            let refused = run(&strict, &at(&url), None, &|_, _| ()).await;
            let Err(StepError::Failed { code, message }) = refused else {
                panic!("{url}: {refused:?}");
            };
            // A user in it nobody takes; the rest another device might see otherwise.
            let code_expected = if host.contains('@') {
                "input_invalid"
            } else {
                "download_failed"
            };
            assert_eq!(code, code_expected, "{url}: {message}");
            assert!(!message.contains("s3cret"), "{message}");
            assert!(!message.contains(host), "{message}");
        }
    }
    for odd in [
        "",
        "/in",
        "file:///etc/passwd",
        "data:text/plain,x",
        "ftp://8.8.8.8/x",
    ] {
        let refused = run(&strict, &at(odd), None, &|_, _| ()).await;
        assert!(matches!(refused, Err(StepError::Failed { .. })), "{odd}");
    }
    assert_eq!(server.connections(), 0);
    // Where one network is allowed, the others are not.
    let lenient = network_with(&server.address, &["127.0.0.0/8"]);
    let inside = run(&lenient, &at("http://10.0.0.1/in"), None, &|_, _| ()).await;
    assert!(matches!(
        inside,
        Err(StepError::Failed {
            code: "download_failed",
            ..
        })
    ));
}
