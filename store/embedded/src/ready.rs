//! Ready means that the server would let somebody in, asked in its own protocol.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::{Instant, sleep, timeout};

use crate::cluster::ROLE;
use crate::error::EmbeddedError;
use crate::files;
use crate::server::Server;

/// Recovery after a crash may have to replay `max_wal_size` of log on a slow disk.
const LONGEST_START: Duration = Duration::from_mins(2);

/// Waits until `server` lets clients in through its socket in `socket_dir`, which is private, so
/// that the answer is surely our server's.
pub(crate) async fn wait(server: &mut Server, socket_dir: &Path) -> Result<(), EmbeddedError> {
    let socket = socket_dir.join(format!(".s.PGSQL.{}", server.port));
    let deadline = Instant::now() + LONGEST_START;
    let reason = loop {
        if let Some(status) = server.ended() {
            break format!("it ended ({status})");
        }
        if accepts(&socket).await {
            return Ok(());
        }
        if Instant::now() >= deadline {
            break format!("no answer for {} s", LONGEST_START.as_secs());
        }
        sleep(Duration::from_millis(20)).await;
    };
    let (log, from) = server.log.clone();
    let tail = files::tail(&log, from);
    Err(EmbeddedError::NotReady { reason, log, tail })
}

/// Whether a start-up message is answered by the request for a password. While the server starts
/// or recovers it answers with an error instead.
async fn accepts(socket: &Path) -> bool {
    const AUTHENTICATION_REQUEST: u8 = b'R';
    let ask = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(&startup_message()).await?;
        stream.read_u8().await
    };
    matches!(
        timeout(Duration::from_secs(2), ask).await,
        Ok(Ok(AUTHENTICATION_REQUEST))
    )
}

/// Length (itself included), protocol 3.0, then names and values, each ended by a zero byte.
fn startup_message() -> Vec<u8> {
    const PROTOCOL: u32 = 3 << 16;
    let body = format!("user\0{ROLE}\0database\0postgres\0\0");
    let length = u32::try_from(body.len() + 8).expect("a hundred bytes fit");
    [
        &length.to_be_bytes()[..],
        &PROTOCOL.to_be_bytes(),
        body.as_bytes(),
    ]
    .concat()
}
