//! Which files a job of a service takes, and what they are called.
//!
//! Most services take a fixed few by name. Where the number is the buyer's, the names are a family:
//! `clip_1` to `clip_64`.

use std::fmt;

use super::ServiceName;
use crate::field::FieldError;
use crate::text::clean;

/// An input of a service, or a family of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputSlot {
    /// Its name; of a family what comes before the number, such as `clip_`.
    pub name: &'static str,
    /// How many there are of it.
    pub count: InputCount,
    /// In what form it is given.
    pub form: InputForm,
    /// What it holds, in a few words for the catalogue.
    pub holds: &'static str,
}

/// In what form an input is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputForm {
    /// One file, by upload or by address.
    File,
    /// Many files: the address of a manifest that lists them, whose SHA-256 the order says. So the
    /// order fixes every byte of them.
    Bundle,
}

impl InputForm {
    /// The form of this input of a service by their names, as an offer says them; none if either is not
    /// known.
    pub fn named(service: &str, input: &str) -> Option<Self> {
        ServiceName::parse(service)?.form_of_input(input)
    }
}

/// How many inputs a slot stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputCount {
    /// Exactly one, of that name.
    One,
    /// One or none, of that name.
    Optional,
    /// One to so many, whose names end with a number from 1 to that many.
    Family(u8),
}

impl InputSlot {
    /// One input that must be given.
    pub const fn one(name: &'static str, holds: &'static str) -> Self {
        Self::file(name, InputCount::One, holds)
    }

    /// One bundle that must be given.
    pub const fn bundle(name: &'static str, holds: &'static str) -> Self {
        Self {
            name,
            count: InputCount::One,
            form: InputForm::Bundle,
            holds,
        }
    }

    /// One input that may be left out.
    pub const fn optional(name: &'static str, holds: &'static str) -> Self {
        Self::file(name, InputCount::Optional, holds)
    }

    /// One to `most` inputs, whose names are `name` and a number.
    pub const fn family(name: &'static str, most: u8, holds: &'static str) -> Self {
        Self::file(name, InputCount::Family(most), holds)
    }

    const fn file(name: &'static str, count: InputCount, holds: &'static str) -> Self {
        Self {
            name,
            count,
            form: InputForm::File,
            holds,
        }
    }

    /// The fewest inputs of this slot.
    pub fn fewest(self) -> u8 {
        match self.count {
            InputCount::One | InputCount::Family(_) => 1,
            InputCount::Optional => 0,
        }
    }

    /// The most inputs of this slot.
    pub fn most(self) -> u8 {
        match self.count {
            InputCount::One | InputCount::Optional => 1,
            InputCount::Family(most) => most,
        }
    }

    /// The name as a pattern: `source`, or `clip_{n}` for a family.
    pub fn pattern(self) -> String {
        match self.count {
            InputCount::One | InputCount::Optional => self.name.to_owned(),
            InputCount::Family(_) => format!("{}{{n}}", self.name),
        }
    }

    /// Which of this slot's inputs `name` is, counted from 1; none if it is none of them.
    fn number_of(self, name: &str) -> Option<u8> {
        let InputCount::Family(most) = self.count else {
            return (name == self.name).then_some(1);
        };
        let digits = name.strip_prefix(self.name)?;
        let number = digits.parse().ok().filter(|n| (1..=most).contains(n))?;
        // One spelling each: `clip_01` and `clip_+1` are no names.
        (number.to_string() == digits).then_some(number)
    }
}

impl fmt::Display for InputSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        match self.count {
            InputCount::One => f.write_str(name),
            InputCount::Optional => write!(f, "{name} (optional)"),
            InputCount::Family(most) => write!(f, "{name}1 to {name}{most}"),
        }
    }
}

impl ServiceName {
    /// The inputs as one readable list.
    pub fn inputs_in_words(self) -> String {
        let words: Vec<_> = self.inputs().iter().map(ToString::to_string).collect();
        words.join(", ")
    }

    /// The place of an input among all that the service may take, for bringing them into the order
    /// of the catalogue and of their numbers; none if it takes no such input.
    pub fn place_of_input(self, name: &str) -> Option<(usize, u8)> {
        let slots = self.inputs().iter().enumerate();
        let mut places = slots.filter_map(|(at, slot)| Some((at, slot.number_of(name)?)));
        places.next()
    }

    /// In what form an input of this name is given; none if the service takes no such input.
    pub fn form_of_input(self, name: &str) -> Option<InputForm> {
        let (at, _) = self.place_of_input(name)?;
        self.inputs().get(at).map(|slot| slot.form)
    }

    /// Whether a job may have exactly the inputs of these names. The complaint is about
    /// `inputs.NAME`.
    pub(super) fn check_input_names(self, names: &[&str]) -> Result<(), FieldError> {
        let service = self.as_str();
        let complaint =
            |name: &str, problem: String| Err(FieldError::new(format!("inputs.{name}"), problem));
        if let Some(odd) = names
            .iter()
            .find(|name| self.place_of_input(name).is_none())
        {
            let (odd, known) = (clean(odd, 100), self.inputs_in_words());
            let problem = if known.is_empty() {
                format!("{service} takes no inputs: leave it out")
            } else {
                format!("is no input of {service}; there are: {known}")
            };
            return complaint(&odd, problem);
        }
        for slot in self.inputs() {
            let given = names.iter().filter(|name| slot.number_of(name).is_some());
            if given.count() < usize::from(slot.fewest()) {
                let first = match slot.count {
                    InputCount::Family(_) => format!("{}1", slot.name),
                    InputCount::One | InputCount::Optional => slot.name.to_owned(),
                };
                let holds = slot.holds;
                return complaint(&first, format!("is missing: {service} needs {holds}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIPS: InputSlot = InputSlot::family("clip_", 64, "the clips");

    #[test]
    fn names_of_a_family_have_one_spelling_each() {
        assert_eq!(CLIPS.number_of("clip_1"), Some(1));
        assert_eq!(CLIPS.number_of("clip_64"), Some(64));
        for odd in [
            "clip_0", "clip_65", "clip_01", "clip_+1", "clip_", "clip", "clip_1 ", "Clip_1",
            "clip_256", "clip_١",
        ] {
            assert_eq!(CLIPS.number_of(odd), None, "{odd}");
        }
        assert_eq!(CLIPS.pattern(), "clip_{n}");
        assert_eq!(CLIPS.to_string(), "clip_1 to clip_64");
        assert_eq!((CLIPS.fewest(), CLIPS.most()), (1, 64));
    }

    #[test]
    fn an_optional_input_may_be_left_out() {
        let captions = InputSlot::optional("captions", "a text");
        assert_eq!((captions.fewest(), captions.most()), (0, 1));
        assert_eq!(captions.to_string(), "captions (optional)");
        assert_eq!(captions.pattern(), "captions");
    }

    #[test]
    fn the_form_of_an_input_is_that_of_its_slot() {
        let form = |service: ServiceName, name: &str| service.form_of_input(name);
        let (render, stitch) = (ServiceName::RemotionRenderV1, ServiceName::StitchExportV1);
        assert_eq!(form(render, "bundle"), Some(InputForm::Bundle));
        assert_eq!(form(stitch, "clip_64"), Some(InputForm::File));
        assert_eq!(form(stitch, "bundle"), None);
        let named = InputForm::named(render.as_str(), "bundle");
        assert_eq!(named, Some(InputForm::Bundle));
        assert_eq!(InputForm::named("remotion.render.v2", "bundle"), None);
    }

    #[test]
    fn exactly_the_inputs_of_the_service_are_taken() {
        let check = |service: ServiceName, names: &[&str]| {
            service
                .check_input_names(names)
                .map_err(|error| error.field)
        };
        let transcode = ServiceName::TranscodeV1;
        assert_eq!(check(transcode, &["source"]), Ok(()));
        assert_eq!(check(transcode, &[]), Err("inputs.source".to_owned()));
        let extra = check(transcode, &["source", "more"]);
        assert_eq!(extra, Err("inputs.more".to_owned()));
        assert_eq!(check(ServiceName::NoopV1, &[]), Ok(()));
        let none = check(ServiceName::NoopV1, &["source"]);
        assert_eq!(none, Err("inputs.source".to_owned()));
    }
}
