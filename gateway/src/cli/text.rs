//! Text that operators give, before it is stored.

use super::error::CliError;

/// The longest name of an org, a provider or a device, in characters.
pub(super) const LONGEST_NAME: usize = 200;
/// The longest note on a device, in characters.
pub(super) const LONGEST_NOTE: usize = 500;

/// `text` without blanks around it, if it can be stored and read; `what` is what a refusal calls it.
pub(super) fn readable<'a>(what: &str, text: &'a str, longest: usize) -> Result<&'a str, CliError> {
    let text = text.trim();
    if text.is_empty() || text.chars().count() > longest || text.contains(char::is_control) {
        let problem = format!("{what} has 1 to {longest} readable characters");
        return Err(CliError::Refused(problem));
    }
    Ok(text)
}
