//! What the end of a socket means.

use fencepost_protocol::close;

use crate::backoff::Redial;

/// Why the agent must not dial again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Farewell {
    /// The device was revoked or disabled.
    #[error(
        "this device was revoked or disabled: ask the operator, then pair it again with \
         `fencepost-agent pair`"
    )]
    Revoked,
    /// The device token is not accepted.
    #[error(
        "the gateway does not accept this device's token: pair it again with \
         `fencepost-agent pair`"
    )]
    Unauthorized,
    /// Another agent runs as this device.
    #[error(
        "another agent connected as this device and took over: two copies of one state folder? \
         Stop one, or pair one of them anew"
    )]
    Superseded,
    /// The gateway does not understand our hello.
    #[error("the gateway refuses this agent's hello: install a matching version")]
    HelloRefused,
}

/// What to do after a socket has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterClose {
    /// Dial again.
    Redial(Redial),
    /// A message of ours was too large: never send it again, then dial.
    TooLarge,
    /// The agent is too old for new work: say so, and dial again, patiently.
    Outdated,
    /// Stay away.
    Stop(Farewell),
}

/// Judges a close code of our **latest** socket. (An older one has been let go of by then, so what
/// it says is never heard.) `None` is a socket that broke without a word.
pub fn after_close(code: Option<u16>) -> AfterClose {
    match code {
        Some(close::REVOKED) => AfterClose::Stop(Farewell::Revoked),
        Some(close::SUPERSEDED) => AfterClose::Stop(Farewell::Superseded),
        Some(close::UPGRADE) => AfterClose::Outdated,
        Some(close::TOO_LARGE) => AfterClose::TooLarge,
        Some(close::RESTART | close::TRY_LATER) => AfterClose::Redial(Redial::Asked),
        Some(_) | None => AfterClose::Redial(Redial::Broken),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_being_revoked_or_superseded_is_for_good() {
        let for_good: Vec<u16> = (1000..5000)
            .filter(|code| matches!(after_close(Some(*code)), AfterClose::Stop(_)))
            .collect();
        assert_eq!(for_good, [4001, 4009]);
    }

    #[test]
    fn a_gateway_going_down_or_overloaded_is_given_time() {
        for code in [1012, 1013] {
            assert_eq!(after_close(Some(code)), AfterClose::Redial(Redial::Asked));
        }
        assert_eq!(after_close(Some(4010)), AfterClose::Outdated);
    }

    #[test]
    fn silence_and_a_cut_line_are_redialled_at_once() {
        for code in [None, Some(4008), Some(1006), Some(1000)] {
            assert_eq!(after_close(code), AfterClose::Redial(Redial::Broken));
        }
    }
}
