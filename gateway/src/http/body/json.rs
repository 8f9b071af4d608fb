//! JSON as we take it: no NUL, no repeated keys, not deeper than a person writes.

use std::cell::RefCell;
use std::fmt;

use fencepost_domain::field::FieldError;
use fencepost_domain::text;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How many arrays and objects may be nested.
const MAX_DEPTH: usize = 64;
/// How much of a field's path is repeated in an answer.
const MAX_PATH_BYTES: usize = 200;

/// Reads a whole text. The error names the field at which reading stopped.
pub fn parse(bytes: &[u8]) -> Result<Value, FieldError> {
    let trail = Trail::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let place = Place {
        trail: &trail,
        depth: 0,
    };
    place
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| FieldError::new(trail.path(), describe(&error)))
}

/// serde_json's words, without its line and column where the problem is ours to explain.
fn describe(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if error.is_data() {
        return text.split(" at line ").next().unwrap_or(&text).to_owned();
    }
    format!("is not valid JSON: {text}")
}

/// Where the reader is, as a path; left as it is when reading stops.
#[derive(Default)]
struct Trail(RefCell<String>);

impl Trail {
    /// Goes into a field or element for as long as `inside` succeeds.
    fn enter<T, E>(&self, step: &str, inside: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let length = self.0.borrow().len();
        {
            let mut path = self.0.borrow_mut();
            if length > 0 && !step.starts_with('[') {
                path.push('.');
            }
            path.push_str(step);
        }
        let result = inside()?;
        self.0.borrow_mut().truncate(length);
        Ok(result)
    }

    fn path(&self) -> String {
        text::clean(&self.0.borrow(), MAX_PATH_BYTES)
    }
}

/// One value at one place.
#[derive(Clone, Copy)]
struct Place<'t> {
    trail: &'t Trail,
    depth: usize,
}

impl Place<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth == MAX_DEPTH {
            return Err(E::custom(format!(
                "is nested more than {MAX_DEPTH} levels deep"
            )));
        }
        Ok(Self {
            depth: self.depth + 1,
            ..self
        })
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("is not a finite number"))?;
        Ok(Value::Number(number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_string(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Value, E> {
        if text.contains('\0') {
            return Err(E::custom("contains a NUL character"));
        }
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let place = self.deeper()?;
        let mut values = Vec::new();
        loop {
            let step = format!("[{}]", values.len());
            match self
                .trail
                .enter(&step, || elements.next_element_seed(place))?
            {
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let place = self.deeper()?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = self.trail.enter(&key, || {
                if key.contains('\0') {
                    return Err(A::Error::custom("has a NUL character in its name"));
                }
                if map.contains_key(&key) {
                    return Err(A::Error::custom("is given twice"));
                }
                entries.next_value_seed(place)
            })?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
