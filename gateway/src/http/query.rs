//! Query strings, as strictly as bodies: a misspelt filter must not return everything.

use std::collections::BTreeMap;

use fencepost_domain::field::FieldError;

/// The longest name of a parameter.
const MAX_NAME_BYTES: usize = 500;

/// The parameters of a query that have not been taken yet.
#[derive(Debug)]
pub struct Query(BTreeMap<String, String>);

impl Query {
    /// Reads a query string; each name may be given once.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        let mut parameters = BTreeMap::new();
        for (name, value) in url::form_urlencoded::parse(text.as_bytes()) {
            let name = fencepost_domain::text::clean(&name, MAX_NAME_BYTES);
            if value.contains('\0') {
                return Err(FieldError::new(name, "contains a NUL character"));
            }
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

    /// Takes all parameters of an object, such as `metadata[order]=42`, by their names between the
    /// brackets; at most so many.
    pub fn take_object(
        &mut self,
        name: &str,
        most: usize,
    ) -> Result<Vec<(String, String)>, FieldError> {
        let within = |parameter: &str| {
            let inner = parameter.strip_prefix(name)?.strip_prefix('[')?;
            inner.strip_suffix(']').map(str::to_owned)
        };
        let all = std::mem::take(&mut self.0).into_iter();
        let mut taken = Vec::new();
        for (parameter, value) in all {
            match within(&parameter) {
                Some(inner) => taken.push((inner, value)),
                None => drop(self.0.insert(parameter, value)),
            }
        }
        if taken.len() > most {
            return Err(FieldError::new(
                name,
                format!("may have at most {most} keys here"),
            ));
        }
        Ok(taken)
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
    fn an_object_is_taken_by_the_names_between_its_brackets() {
        let mut query = Query::parse("metadata[order]=42&metadata%5Ba.b%5D=&meta[x]=1").unwrap();
        let taken = query.take_object("metadata", 2).unwrap();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(taken, [pair("a.b", ""), pair("order", "42")]);
        assert_eq!(query.finish().unwrap_err().field, "meta[x]");
        let mut query = Query::parse("m[a]=1&m[b]=2").unwrap();
        assert_eq!(query.take_object("m", 1).unwrap_err().field, "m");
    }

    #[test]
    fn a_nul_is_refused_by_the_name_of_its_parameter() {
        assert_eq!(Query::parse("a=x%00").unwrap_err().field, "a");
    }

    #[test]
    fn a_parameter_that_is_given_twice_is_refused() {
        assert_eq!(Query::parse("a=1&a=2").unwrap_err().field, "a");
    }
}
