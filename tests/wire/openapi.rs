//! The description of the API is what the gateway does: it is served as it is committed, and a body
//! that it calls right is taken, one that it calls wrong refused.

use fencepost_tests::Site;
use fencepost_tests::buyer::{answer, clip};
use fencepost_tests::described::{Described, operations};
use fencepost_tests::gateway::TestGateway;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

#[tokio::test]
async fn anybody_gets_the_description_that_is_committed() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let request = gateway
        .client
        .get(format!("{}/v1/openapi.json", gateway.url));
    let (status, served) = answer(request.send().await.expect("the gateway answers")).await;
    assert_eq!(status, StatusCode::OK);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let text = std::fs::read_to_string(path).expect("docs/openapi.json");
    let committed: Value = serde_json::from_str(&text).expect("JSON");
    assert!(served == committed, "run make openapi");
}

/// Everything that the example could be made into by one change: a field left out, one too many, or
/// another value in some place.
fn variants(example: &Value) -> Vec<Value> {
    let mut all = vec![example.clone()];
    for place in places(example, "") {
        let odd = [
            json!(null),
            json!(true),
            json!(-1),
            json!(0),
            json!(1),
            json!(1.5),
            json!(""),
            json!("x"),
            json!("x".repeat(1_000)),
            json!([]),
            json!([1]),
            json!({}),
        ];
        all.extend(odd.map(|odd| changed(example, &place, |value| *value = odd)));
        all.push(changed(example, &place, |value| {
            if let Some(fields) = value.as_object_mut() {
                fields.insert("surprise".to_owned(), json!(1));
            }
        }));
        let Some((parent, name)) = place.rsplit_once('/') else {
            continue;
        };
        all.push(changed(example, parent, |value| {
            if let Some(fields) = value.as_object_mut() {
                fields.remove(name);
            }
        }));
    }
    all
}

/// Where there is something, as JSON pointers.
fn places(value: &Value, here: &str) -> Vec<String> {
    let within = match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, value)| places(value, &format!("{here}/{name}")))
            .collect(),
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .flat_map(|(number, value)| places(value, &format!("{here}/{number}")))
            .collect(),
        _ => Vec::new(),
    };
    [vec![here.to_owned()], within].concat()
}

fn changed(example: &Value, place: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut value = example.clone();
    change(value.pointer_mut(place).expect("the place is there"));
    value
}

/// What only rows can tell, so that it was read.
fn is_about_rows(problem: &Value) -> bool {
    let detail = problem["detail"].as_str().unwrap_or_default();
    problem["code"] == "too_many_requests" || detail.starts_with("the code is unknown")
}

/// What is looked at only for the holder of the lease: anybody else learns first that they are not.
const LATER: [&str; 3] = ["/kind", "/name", "/handle"];

struct Asking<'s> {
    gateway: &'s TestGateway,
    buyer: String,
    device: String,
    upload: String,
    job: String,
}

impl Asking<'_> {
    async fn send(&self, operation: &Described, body: &Value) -> Response {
        let attempt = "019adf00-0000-7000-8000-000000000002";
        let path = operation.path.replace("{job}", &self.job);
        let path = path.replace("{attempt}", attempt);
        let path = path.replace("{upload}", &self.upload);
        let address = format!("{}{path}", self.gateway.url);
        let request = self
            .gateway
            .client
            .request(operation.method.clone(), address);
        let request = match operation.credential() {
            Some("org_key") => request.bearer_auth(&self.buyer),
            Some("device_token") => request.bearer_auth(&self.device),
            _ => request,
        };
        request
            .json(body)
            .send()
            .await
            .expect("the gateway answers")
    }

    /// Sends every variant of the operation's example; how many were right and how many wrong.
    async fn compare(&self, operation: &Described) -> (usize, usize) {
        let Some((schema, mut example)) = operation.body() else {
            return (0, 0);
        };
        if let Some(upload) = example.pointer_mut("/inputs/source/upload_id") {
            *upload = json!(self.upload);
        }
        if let Some(url) = example.pointer_mut("/url") {
            // The example leads out into the world, where a test has no business.
            *url = json!("http://127.0.0.1:9/hooks");
        }
        let mut bodies = variants(&example);
        if let Some(source) = example.pointer_mut("/inputs/source") {
            *source = json!({
                "url": "http://127.0.0.1:9/film.mp4", "sha256": "0a".repeat(32), "size_bytes": 7,
            });
            bodies.extend(variants(&example));
            bodies.extend(variants(&json!({
                "service": "remotion.inspect.v1",
                "inputs": { "bundle": {
                    "url": "http://127.0.0.1:9/fencepost.json", "sha256": "0a".repeat(32),
                } },
            })));
        }
        let (mut right, mut wrong) = (0, 0);
        for body in bodies {
            let response = self.send(operation, &body).await;
            let status = response.status();
            let said = if status == StatusCode::NO_CONTENT {
                Value::Null
            } else {
                answer(response).await.1
            };
            let shown = format!("{} {body}: {status} {said}", operation.path);
            assert_eq!(operation.wrong(status, &said), None, "{shown}");
            if is_about_rows(&said) {
                right += 1;
                continue;
            }
            let refused = said["code"] == "invalid_request";
            let errors: Vec<_> = schema.iter_errors(&body).collect();
            let mut places = errors.iter().map(|error| error.instance_path().to_string());
            let is_later = places.all(|place| LATER.contains(&place.as_str()));
            if !errors.is_empty() && status == StatusCode::CONFLICT && is_later {
                continue;
            }
            assert_eq!(!errors.is_empty(), refused, "{shown}: {errors:?}");
            *if refused { &mut wrong } else { &mut right } += 1;
        }
        (right, wrong)
    }
}

/// What no parameter of this schema can be, as it stands in a query.
fn wrong_parameter(name: &str, schema: &Value) -> Vec<String> {
    let kind = schema["type"].as_str().expect("a type");
    let mut wrong = match kind {
        // An object without a key.
        "object" => vec![format!("{name}=42")],
        "integer" => ["x", "-1", "1.5", "", "99999999999999999999"]
            .map(|value| format!("{name}={value}"))
            .to_vec(),
        _ => ["nonsense", "", "2026-13", "%F0%9F%92%A9"]
            .map(|value| format!("{name}={value}"))
            .to_vec(),
    };
    let is_bound = ["enum", "format", "pattern"]
        .iter()
        .any(|rule| schema.get(rule).is_some());
    if kind == "string" && !is_bound {
        // Names between commas, of which there may be none.
        wrong.retain(|query| !query.ends_with('='));
    }
    let above = schema["maximum"]
        .as_i64()
        .map(|most| format!("{name}={}", most + 1));
    wrong.extend(above);
    if kind != "object" {
        wrong.extend([format!("{name}=%00"), format!("{name}=1&{name}=1")]);
    }
    wrong
}

#[tokio::test]
async fn a_wrong_parameter_is_refused_by_its_own_name() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let job = buyer.submit_noop().await;
    let mut asked = 0;
    for operation in operations() {
        let path = operation
            .path
            .replace("{job}", &job)
            .replace("{endpoint}", &job);
        let parameters = operation.operation["parameters"]
            .as_array()
            .into_iter()
            .flatten();
        for parameter in parameters.filter(|parameter| parameter["in"] == "query") {
            let name = parameter["name"].as_str().expect("a name");
            for query in wrong_parameter(name, &parameter["schema"]) {
                let mut request =
                    buyer.request(operation.method.clone(), &format!("{path}?{query}"));
                if let Some((_, example)) = operation.body() {
                    request = request.json(&example);
                }
                let (status, said) = answer(request.send().await.expect("it answers")).await;
                assert_eq!(status, StatusCode::BAD_REQUEST, "{path}?{query}: {said}");
                assert_eq!(said["field"], name, "{path}?{query}: {said}");
                asked += 1;
            }
        }
    }
    assert!(asked > 80, "{asked}");
    // A number that is none of this job's events, wherever it is said.
    let events = format!("/v1/jobs/{job}/events");
    let (status, said) = buyer.get(&format!("{events}?after=999")).await;
    assert_eq!(
        (status, &said["field"]),
        (StatusCode::BAD_REQUEST, &json!("after"))
    );
}

#[tokio::test]
async fn what_is_no_id_in_an_address_hears_what_one_looks_like() {
    let site = Site::new().await;
    let gateway = site.gateway().await;
    let buyer = site.buyer(&gateway);
    let id = "019adf00-0000-7000-8000-000000000001";
    let mut asked = 0;
    for operation in operations() {
        let is_ours = operation.credential() == Some("org_key") && operation.path.contains('{');
        if !is_ours || operation.method != reqwest::Method::GET {
            continue;
        }
        let names = ["{job}", "{upload}", "{endpoint}", "{event}"];
        let named = names
            .into_iter()
            .filter(|name| operation.path.contains(name));
        for odd in named {
            let path = names
                .into_iter()
                .fold(operation.path.clone(), |path, name| {
                    path.replace(name, if name == odd { "42" } else { id })
                });
            let (status, said) = buyer.get(&path).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {said}");
            let detail = said["detail"].as_str().expect("a detail");
            assert!(detail.contains("an id looks like"), "{path}: {said}");
            asked += 1;
        }
    }
    assert!(asked >= 8, "{asked}");
}

#[tokio::test]
async fn the_readers_take_what_is_described_and_refuse_the_rest() {
    let site = Site::new().await;
    let gateway = site.gateway_for_webhooks().await;
    let buyer = site.buyer(&gateway);
    let asking = Asking {
        gateway: &gateway,
        buyer: site.api_key.clone(),
        device: site.device(&gateway, "mac").await.token,
        upload: buyer.upload(clip().await).await,
        job: buyer.submit_noop().await,
    };
    let mut bodies = 0;
    for operation in operations() {
        if operation.body().is_some() {
            let (right, wrong) = asking.compare(&operation).await;
            assert!(
                right > 0 && wrong > 0,
                "{}: {right}, {wrong}",
                operation.path
            );
            bodies += 1;
        }
    }
    assert!(bodies >= 13, "{bodies}");
}
