//! One route and everything that there is to say about it.

use std::collections::BTreeMap;

use actix_web::http::Method;
use actix_web::{FromRequest, Handler, Responder, Route, web};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use super::Parameter;
use crate::http::problem::ProblemCode;

/// How a type is described, in a document whose definitions the generator collects.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Who may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// A buyer, by an API key of their org.
    Buyer,
    /// A device, by its token.
    Device,
    /// Whoever has what stands in the body or the address: an enrollment code, a signed link.
    Bearer,
    /// Anybody.
    Anybody,
}

/// What an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// What buyers want done.
    Jobs,
    /// Bytes on their way in and out.
    Files,
    /// What there is, and what it costs.
    Services,
    /// What an org has and owes.
    Money,
    /// Events, sent to the buyer's own servers.
    Webhooks,
    /// Leases outside of a socket, and the way into one.
    Provider,
    /// The API itself.
    About,
}

/// What a request brings.
pub(super) struct Body {
    pub(super) content_type: &'static str,
    pub(super) schema: Option<SchemaOf>,
    /// Examples by name; a body that has but one needs none for it.
    pub(super) examples: Vec<(&'static str, Value)>,
    pub(super) required: bool,
}

/// What comes back when all is well.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) about: &'static str,
    pub(super) content_type: Option<&'static str>,
    /// What it is if the request accepts that rather.
    pub(super) or_as: Option<&'static str>,
    pub(super) schema: Option<SchemaOf>,
    pub(super) headers: Vec<&'static str>,
}

/// A route with its description.
pub struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) id: &'static str,
    pub(super) route: Route,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) tag: Tag,
    pub(super) who: Who,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) answers: Vec<Answer>,
    pub(super) problems: BTreeMap<u16, Vec<ProblemCode>>,
}

/// A way to describe routes that are asked with one method, by its name.
macro_rules! asked_with {
    ($($name:ident $method:ident)+) => {
        impl Operation {
            $(
                #[doc = concat!("A route that is asked with ", stringify!($method), ".")]
                pub fn $name<F, Args>(path: &'static str, id: &'static str, handler: F) -> Self
                where
                    F: Handler<Args>,
                    Args: FromRequest + 'static,
                    F::Output: Responder + 'static,
                {
                    Self::new(Method::$method, path, id, handler)
                }
            )+
        }
    };
}

asked_with! { get GET post POST put PUT patch PATCH delete DELETE head HEAD }

impl Operation {
    /// A route that is asked with `method`; `id` is its name in generated clients.
    fn new<F, Args>(method: Method, path: &'static str, id: &'static str, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        let operation = Self {
            route: web::method(method.clone()).to(handler),
            method,
            path,
            id,
            summary: "",
            description: "",
            tag: Tag::About,
            who: Who::Anybody,
            parameters: Parameter::of_path(path),
            body: None,
            answers: Vec::new(),
            problems: BTreeMap::new(),
        };
        operation.refuses(&[ProblemCode::Internal])
    }

    /// What it does, in a few words and in a few sentences.
    pub fn says(self, summary: &'static str, description: &'static str) -> Self {
        Self {
            summary,
            description,
            ..self
        }
    }

    /// What it is about.
    pub fn of(self, tag: Tag) -> Self {
        Self { tag, ..self }
    }

    /// Who may ask. Whoever has to be looked up may be unknown, and the database away.
    pub fn by(self, who: Who) -> Self {
        let asked = Self { who, ..self };
        match who {
            Who::Buyer => asked.refuses(&[
                ProblemCode::Unauthorized,
                ProblemCode::TooManyRequests,
                ProblemCode::Unavailable,
            ]),
            Who::Device => asked.refuses(&[ProblemCode::Unauthorized, ProblemCode::Unavailable]),
            Who::Bearer => asked.refuses(&[ProblemCode::Unavailable]),
            Who::Anybody => asked,
        }
    }

    /// A parameter in the query or a header.
    pub fn reads(mut self, parameter: Parameter) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// A JSON body, with an example that is right. One that says nothing may be left out.
    pub fn takes<T: Serialize + JsonSchema>(self, example: &T) -> Self {
        self.takes_any_of(&[("example", example)])
    }

    /// The same with several examples by name, of which the first is the usual one.
    pub fn takes_any_of<T: Serialize + JsonSchema>(
        mut self,
        examples: &[(&'static str, &T)],
    ) -> Self {
        let examples = examples.iter().map(|(name, example)| {
            // Examples are ours, and made of what JSON can hold.
            (*name, serde_json::to_value(example).unwrap_or_default())
        });
        let examples: Vec<_> = examples.collect();
        let says_something = |(_, example): &(_, Value)| {
            example.as_object().is_some_and(|fields| !fields.is_empty())
        };
        self.body = Some(Body {
            content_type: "application/json",
            schema: Some(SchemaGenerator::subschema_for::<T>),
            required: examples.iter().all(says_something),
            examples,
        });
        self.refuses(&[
            ProblemCode::InvalidRequest,
            ProblemCode::BrokenOff,
            ProblemCode::TooLarge,
            ProblemCode::UnsupportedMediaType,
        ])
    }

    /// A body of any bytes.
    pub fn takes_bytes(mut self) -> Self {
        self.body = Some(Body {
            content_type: "application/octet-stream",
            schema: None,
            examples: Vec::new(),
            required: true,
        });
        self
    }

    /// A JSON answer.
    pub fn answers<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answer(Answer {
            status,
            about,
            content_type: Some("application/json"),
            or_as: None,
            schema: Some(SchemaGenerator::subschema_for::<T>),
            headers: Vec::new(),
        })
    }

    /// An answer that is not JSON.
    pub fn answers_with(
        self,
        status: u16,
        content_type: &'static str,
        about: &'static str,
    ) -> Self {
        self.answer(Answer {
            status,
            about,
            content_type: Some(content_type),
            or_as: None,
            schema: None,
            headers: Vec::new(),
        })
    }

    /// An answer without a body.
    pub fn answers_nothing(self, status: u16, about: &'static str) -> Self {
        self.answer(Answer {
            status,
            about,
            content_type: None,
            or_as: None,
            schema: None,
            headers: Vec::new(),
        })
    }

    fn answer(mut self, answer: Answer) -> Self {
        self.answers.push(answer);
        self
    }

    /// The answer that was described last may be of this type too, if that is accepted.
    pub fn or_as(mut self, content_type: &'static str) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.or_as = Some(content_type);
        }
        self
    }

    /// A header of the answer that was described last; one that [`super::parameters`] knows.
    pub fn with_header(mut self, name: &'static str) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.headers.push(name);
        }
        self
    }

    /// Problems, each with its own status.
    pub fn refuses(self, codes: &[ProblemCode]) -> Self {
        codes.iter().fold(self, |operation, code| {
            operation.refuses_as(code.status().as_u16(), &[*code])
        })
    }

    /// Problems that all have this status here.
    pub fn refuses_as(mut self, status: u16, codes: &[ProblemCode]) -> Self {
        let known = self.problems.entry(status).or_default();
        for code in codes {
            if !known.contains(code) {
                known.push(*code);
            }
        }
        self
    }

    /// Where it is, and what it is registered as.
    pub(in crate::http) fn into_route(self) -> (&'static str, Method, Route) {
        (self.path, self.method, self.route)
    }
}
