//! Where the log goes: stderr, so that stdout stays for answers. And what never goes there.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

/// What the targets of our own crates begin with.
const OURS: &str = "fencepost_";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For a person.
    Text,
    /// For a program, one object per line.
    Json,
}

/// Starts logging. `RUST_LOG` chooses what, as far as [`may_be_said`] lets it; `info` of our own crates if
/// it is not set.
pub fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,fencepost_agent=info,fencepost_media=info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let started = match format {
        LogFormat::Text => builder.with_target(false).finish().with(cap()).try_init(),
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true);
            builder.finish().with(cap()).try_init()
        }
    };
    // Only a second call fails, and then the first one's choice stands.
    drop(started);
}

fn cap<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    filter_fn(may_be_said)
}

/// Other people's code does not know what is secret: at `trace`, the library of the session writes
/// whole frames, with the commit tokens and the buyers' addresses in them. So whatever `RUST_LOG` says,
/// nobody but our own crates says more than `info`.
fn may_be_said(what: &Metadata<'_>) -> bool {
    *what.level() <= Level::INFO || what.target().starts_with(OURS)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_say_no_more_than_info_whatever_they_are_asked_for() {
        let paper = Paper::default();
        let copy = paper.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter("trace,tungstenite=trace,hyper::proto=trace")
            .with_writer(move || copy.clone())
            .finish()
            .with(cap());
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "tungstenite::protocol", "a frame");
            tracing::debug!(target: "hyper::proto::h1", "a head");
            tracing::trace!(target: "fencepost", "a stranger");
            tracing::info!(target: "tungstenite::protocol", "news");
            tracing::trace!("our own");
            tracing::trace!(target: "fencepost_media::runner", "also ours");
        });
        let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        for (said, is_there) in [
            ("a frame", false),
            ("a head", false),
            ("a stranger", false),
            ("news", true),
            ("our own", true),
            ("also ours", true),
        ] {
            assert_eq!(written.contains(said), is_there, "{said}: {written}");
        }
    }
}
