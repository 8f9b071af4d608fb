//! Every spelling of an address that is not out in the world is refused.

use std::collections::HashMap;
use std::io;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::*;

/// Names and where they lead.
#[derive(Clone, Default)]
pub(crate) struct Names(HashMap<&'static str, Vec<IpAddr>>);

impl Names {
    pub(crate) fn with(mut self, name: &'static str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|text| text.parse().unwrap());
        self.0.insert(name, addresses.collect());
        self
    }
}

impl Lookup for Names {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let found = self.0.get(name.as_str()).cloned();
        async move { found.ok_or_else(|| io::ErrorKind::NotFound.into()) }.boxed()
    }
}

pub(crate) fn names() -> Names {
    Names::default()
        .with("good.example", &["93.184.215.14", "2606:2800:21f::1"])
        .with("half.example", &["93.184.215.14", "::1"])
        .with("second.example", &["93.184.215.14", "10.0.0.7"])
        .with("mapped.example", &["::ffff:127.0.0.1"])
        .with("localhost", &["127.0.0.1", "::1"])
        .with("localhost.", &["127.0.0.1"])
        .with("metadata.example", &["169.254.169.254"])
}

async fn admit(allowed: &[&str], url: &str) -> Result<(), Refused> {
    let allowed = AllowList::parse(allowed.iter().copied()).unwrap();
    let url = Url::parse(url).map_err(|_| Refused::Form)?;
    Guard::with_lookup(allowed, names()).admit(&url).await
}

#[tokio::test]
async fn no_spelling_of_an_address_within_is_admitted() {
    for host in [
        "127.0.0.1",
        "127.1",
        "0",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "0x7f.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[2002:7f00:1::]",
        "[64:ff9b::7f00:1]",
        "[::127.0.0.1]",
        "[fe81::1]",
        "[fd00::1]",
        "169.254.169.254",
        "100.64.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "metadata.example",
        "mapped.example",
        "half.example",
        "second.example",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
    ] {
        for url in [
            format!("https://{host}/x"),
            format!("https://{host}:8443/x"),
        ] {
            assert_eq!(admit(&[], &url).await, Err(Refused::NotPublic), "{url}");
        }
    }
}

#[tokio::test]
async fn what_is_public_is_admitted_by_name_and_by_number_over_https_alone() {
    for host in [
        "good.example",
        "GOOD.example:8443",
        "93.184.215.14",
        "[2606:2800:21f::1]",
    ] {
        assert_eq!(
            admit(&[], &format!("https://{host}/hook?x=1")).await,
            Ok(()),
            "{host}"
        );
        let plain = format!("http://{host}/");
        assert_eq!(admit(&[], &plain).await, Err(Refused::InClear), "{host}");
        let elsewhere = admit(&["10.0.0.0/8"], &plain).await;
        assert_eq!(elsewhere, Err(Refused::InClear), "{host}");
    }
}

#[tokio::test]
async fn other_forms_are_refused() {
    for (url, why) in [
        ("ftp://good.example/", Refused::Form),
        ("file:///etc/passwd", Refused::Form),
        ("data:text/plain,x", Refused::Form),
        ("good.example", Refused::Form),
        ("https://me@good.example/", Refused::Credentials),
        ("https://me:secret@good.example/", Refused::Credentials),
        ("https://good.example:x@127.0.0.1/", Refused::Credentials),
        ("https://nobody.example/", Refused::Unknown),
    ] {
        assert_eq!(admit(&[], url).await, Err(why), "{url}");
    }
}

#[tokio::test]
async fn networks_that_the_operator_named_are_admitted_and_no_others() {
    let allowed = ["127.0.0.0/8", "::1/128"];
    for url in [
        "http://127.0.0.1:9000/",
        "https://127.0.0.1/",
        "http://localhost:9000/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://mapped.example/",
    ] {
        assert_eq!(admit(&allowed, url).await, Ok(()), "{url}");
    }
    for url in [
        "https://10.0.0.7/",
        "https://second.example/",
        "https://[2002:7f00:1::]/",
    ] {
        assert_eq!(admit(&allowed, url).await, Err(Refused::NotPublic), "{url}");
    }
    // Its other address is public, and would be reached in clear.
    let half = admit(&allowed, "http://half.example/").await;
    assert_eq!(half, Err(Refused::InClear));
}
