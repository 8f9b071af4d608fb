//! Query strings, as strictly as bodies: a misspelt filter must not return everything.

use std::collections::BTreeMap;

use fencepost_domain::field::FieldError;

/// The parameters of a query that have not been taken yet.
#[derive(Debug)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads a query string; each name may be given once.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let mut parameters = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let name = fencepost_domain::text::clean(&name, 100);
            if parameters
                .insert(name.clone(), value.into_owned())
                .is_some()
            {
                return Err(FieldError::new(name, "is given twice"));
            }
        }
        Ok(Self(parameters))
    }

    /// Takes a parameter, read by `read`, which says what it expects when it cannot.
    pub fn take<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Option<T>,
        expected: &str,
    ) -> Result<Option<T>, FieldError> {
        let Some(text) = self.0.remove(name) else {
            return Ok(None);
        };
        match read(&text) {
            Some(value) => Ok(Some(value)),
            None => Err(FieldError::new(name, format!("must be {expected}"))),
        }
    }

    /// Refuses what was not taken.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(FieldError::new(name, "is not a parameter here")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_taken_by_name_and_the_rest_is_refused() {
        let mut query = Query::parse("limit=5&stat%75s=queued&x=1").unwrap();
        let number = |text: &str| text.parse::<i64>().ok();
        assert_eq!(query.take("limit", number, "a number").unwrap(), Some(5));
        assert_eq!(query.take("cursor", number, "a number").unwrap(), None);
        assert!(query.take("status", number, "a number").is_err());
        assert_eq!(query.finish().unwrap_err().field, "x");
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_refused() {
        assert_eq!(Query::parse("a=1&a=2").unwrap_err().field, "a");
    }
}
