//! Inputs that a buyer puts into an order: the clips of a film, the tracks of a mix.

use std::collections::BTreeSet;

use crate::field::FieldError;
use crate::text::clean;

/// The longest time that a parameter can name, in seconds: a day.
pub(super) const MAX_SECONDS: f64 = 86_400.0;

/// Something that is made of one input.
pub trait Part: Sized {
    /// The part that is all of an input, as it is.
    fn all_of(input: String) -> Self;

    /// The name of the input.
    fn input(&self) -> &str;
}

/// The parts that the buyer listed, or else all inputs as they are: of these names, which are in
/// the order of their numbers.
pub(super) fn parts_of<'a, P: Part + Clone>(
    listed: Option<&[P]>,
    names: impl Iterator<Item = &'a str>,
) -> Vec<P> {
    match listed {
        Some(parts) => parts.to_vec(),
        None => names.map(|name| P::all_of(name.to_owned())).collect(),
    }
}

/// Whether a list of parts has between one and `most`.
pub(super) fn check_number<P>(
    field: &str,
    listed: Option<&[P]>,
    most: usize,
) -> Result<(), FieldError> {
    match listed {
        Some(parts) if parts.is_empty() || parts.len() > most => {
            let problem = format!(
                "must have 1 to {most} entries, has {}; leave it out to take all inputs as they are",
                parts.len()
            );
            Err(FieldError::new(field, problem))
        }
        Some(_) | None => Ok(()),
    }
}

/// Whether every part is of an input that the job has, and every input is part of something: what
/// was uploaded and is not used is a mistake.
pub(super) fn check_use<P: Part>(
    field: &str,
    listed: Option<&[P]>,
    names: &[&str],
) -> Result<(), FieldError> {
    let Some(parts) = listed else { return Ok(()) };
    for (position, part) in parts.iter().enumerate() {
        if !names.contains(&part.input()) {
            let problem = format!("no input is called {}", clean(part.input(), 100));
            return Err(FieldError::new(
                format!("params.{field}[{position}].input"),
                problem,
            ));
        }
    }
    let used: BTreeSet<_> = parts.iter().map(Part::input).collect();
    match names.iter().find(|name| !used.contains(*name)) {
        Some(unused) => Err(FieldError::new(
            format!("inputs.{unused}"),
            format!("is in no entry of params.{field}: add it there, or leave the input out"),
        )),
        None => Ok(()),
    }
}

/// Whether a time is between nothing and a day.
pub(super) fn check_seconds(field: &str, seconds: Option<f64>) -> Result<(), FieldError> {
    match seconds {
        Some(seconds) if !(0.0..=MAX_SECONDS).contains(&seconds) => Err(FieldError::new(
            field,
            format!("must be between 0 and {MAX_SECONDS} seconds, got {seconds}"),
        )),
        Some(_) | None => Ok(()),
    }
}
