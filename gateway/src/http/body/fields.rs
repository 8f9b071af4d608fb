//! Taking an object apart field by field, so that each complaint has a full path.

use fencepost_domain::field::FieldError;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// The fields of one object that have not been taken yet.
#[derive(Debug)]
pub struct Fields {
    path: String,
    map: Map<String, Value>,
    known: Vec<&'static str>,
}

impl Fields {
    /// The fields of the body itself.
    pub fn of_body(body: Value) -> Result<Self, FieldError> {
        Self::of(String::new(), body)
    }

    fn of(path: String, value: Value) -> Result<Self, FieldError> {
        match value {
            Value::Object(map) => Ok(Self {
                path,
                map,
                known: Vec::new(),
            }),
            other => Err(FieldError::new(
                path,
                format!("must be an object, got {}", kind(&other)),
            )),
        }
    }

    /// The path of one of the fields, seen from the body.
    pub fn path(&self, name: &str) -> String {
        match self.path.as_str() {
            "" => name.to_owned(),
            outer => format!("{outer}.{name}"),
        }
    }

    /// A complaint about one of the fields.
    pub fn complaint(&self, name: &str, problem: impl Into<String>) -> FieldError {
        FieldError::new(self.path(name), problem)
    }

    /// Takes a field as it is; null is as good as absent.
    pub fn value(&mut self, name: &'static str) -> Option<Value> {
        self.known.push(name);
        self.map.remove(name).filter(|value| !value.is_null())
    }

    /// Takes a field that belongs to objects of another kind; it is not named among those there are.
    pub fn has_foreign(&mut self, name: &str) -> bool {
        self.map.remove(name).is_some_and(|value| !value.is_null())
    }

    /// Takes a field that may be absent.
    pub fn optional<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        expected: &str,
    ) -> Result<Option<T>, FieldError> {
        let Some(value) = self.value(name) else {
            return Ok(None);
        };
        let found = kind(&value);
        match T::deserialize(value) {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(self.complaint(name, format!("must be {expected}, got {found}"))),
        }
    }

    /// Takes a field that must be there.
    pub fn required<T: DeserializeOwned>(
        &mut self,
        name: &'static str,
        expected: &str,
    ) -> Result<T, FieldError> {
        self.optional(name, expected)?
            .ok_or_else(|| self.complaint(name, format!("is missing; it must be {expected}")))
    }

    /// Takes a whole number within bounds.
    pub fn integer(
        &mut self,
        name: &'static str,
        bounds: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, FieldError> {
        let expected = format!(
            "a whole number between {} and {}",
            bounds.start(),
            bounds.end()
        );
        let number = self.optional::<Whole>(name, &expected)?;
        let number = number.map(|Whole(number)| number);
        if let Some(number) = number.filter(|number| !bounds.contains(number)) {
            return Err(self.complaint(name, format!("must be {expected}, got {number}")));
        }
        Ok(number)
    }

    /// Takes an object that may be absent.
    pub fn object(&mut self, name: &'static str) -> Result<Option<Self>, FieldError> {
        let path = self.path(name);
        self.value(name)
            .map(|value| Self::of(path, value))
            .transpose()
    }

    /// Takes all fields that are left, whatever their names, as objects of their own; null is as good
    /// as absent.
    pub fn rest_as_objects(mut self) -> Result<Vec<(String, Self)>, FieldError> {
        std::mem::take(&mut self.map)
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| {
                let path = self.path(&fencepost_domain::text::clean(&name, 100));
                Ok((name, Self::of(path, value)?))
            })
            .collect()
    }

    /// Refuses what was not taken: a misspelt field must not be ignored.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => {
                let known = match self.known.as_slice() {
                    [] => "there are none".to_owned(),
                    known => format!("there are: {}", known.join(", ")),
                };
                let problem = format!("is not a field here; {known}");
                Err(self.complaint(&fencepost_domain::text::clean(name, 100), problem))
            }
        }
    }
}

/// A whole number, also if it is written with a point as in `3.0`: in JSON the two are one number.
struct Whole(i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let pointed = || number.as_f64().and_then(whole);
        let whole = number.as_i64().or_else(pointed);
        let whole = whole.ok_or_else(|| D::Error::custom("must be a whole number"));
        whole.map(Self)
    }
}

/// The whole number that a float is, as far as floats count one by one.
fn whole(float: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if float.fract() != 0.0 || float.abs() > EXACT {
        return None;
    }
    // Such a float is written without a point or an exponent.
    format!("{float:.0}").parse().ok()
}

/// What a value is, for a complaint; never the value itself, which may be long or secret.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(number) if number.as_f64().is_some_and(|n| n.fract() != 0.0) => "a fraction",
        // A whole number that has no room in 64 bits.
        Value::Number(number) if number.is_f64() => "a very large number",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
