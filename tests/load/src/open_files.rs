//! Every socket is an open file here, and two in the gateway, which inherits our limit: it keeps a
//! second handle on each connection, to cut it when its peer does not read.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::LoadError;

const FILES_PER_SOCKET: u64 = 2;
/// Files that are open besides the sockets: the database, logs, pipes, libraries.
const OTHERS: u64 = 256;

/// Sees to it that `sockets` can be open at once, raising the soft limit where that is enough.
pub(crate) fn reserve(sockets: u64) -> Result<(), LoadError> {
    let needed = sockets * FILES_PER_SOCKET + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    // No limit is written as none.
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(allowed) = limit.maximum.filter(|maximum| *maximum < needed) {
        return Err(LoadError::OpenFiles { needed, allowed });
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|_| LoadError::OpenFiles {
        needed,
        allowed: limit.current.unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_can_ever_be_open_is_refused_with_both_numbers() {
        let Some(allowed) = getrlimit(Resource::Nofile).maximum else {
            return;
        };
        let refusal = reserve(allowed).unwrap_err().to_string();
        assert!(refusal.contains(&allowed.to_string()), "{refusal}");
        assert!(
            refusal.contains(&(allowed * FILES_PER_SOCKET + OTHERS).to_string()),
            "{refusal}"
        );
    }

    #[test]
    fn what_fits_is_granted() {
        reserve(8).unwrap();
    }
}
