//! Putting the configuration together: file, then environment, then flags; the later one wins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use config::builder::DefaultState;
use config::{ConfigBuilder, Environment, File, FileFormat};

use super::{Config, ConfigError};

/// The file that is read, if it is there, when none is named.
const DEFAULT_FILE: &str = "fencepost.toml";
const PREFIX: &str = "FENCEPOST_";
/// Variables of ours that are not configuration keys of the gateway.
const OTHERS: [&str; 7] = [
    "CONFIG",
    "AGENT_",
    "ENROLLMENT_CODE",
    "TEST_",
    "DEMO_",
    // The buyer's terminal.
    "API",
    "KEY",
];
/// Keys whose values must not be seen in `ps`.
const SECRET_KEYS: [&str; 5] = [
    "database.url",
    "artifacts.signing_key",
    "artifacts.s3.access_key_id",
    "artifacts.s3.secret_access_key",
    "webhooks.secret_key",
];

/// Where the configuration comes from.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    /// The file that was named; it must exist.
    pub file: Option<PathBuf>,
    /// The environment, as it is.
    pub environment: BTreeMap<String, String>,
    /// Flags: `section.key` and its value.
    pub flags: Vec<(String, String)>,
}

impl Origins {
    /// The process's own environment; variables that are not text are none of ours.
    pub fn from_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self {
            file,
            environment,
            flags,
        }
    }
}

/// Reads and checks the configuration.
pub fn load(origins: &Origins) -> Result<Config, ConfigError> {
    let mut builder = config::Config::builder();
    if let Some(file) = file_of(origins)? {
        builder = builder.add_source(File::from(file).format(FileFormat::Toml));
    }
    let mut variables = variables(&origins.environment)?;
    builder = with_lists(builder, &mut variables)?;
    builder = builder.add_source(
        Environment::default()
            .separator("__")
            .source(Some(variables)),
    );
    builder = with_flags(builder, &origins.flags)?;
    let config: Config = builder
        .build()
        .and_then(config::Config::try_deserialize)
        .map_err(|error| ConfigError(error.to_string()))?;
    config.validate()?;
    Ok(config)
}

fn file_of(origins: &Origins) -> Result<Option<PathBuf>, ConfigError> {
    match &origins.file {
        Some(file) if file.is_file() => Ok(Some(file.clone())),
        Some(file) => Err(ConfigError(format!("there is no file {}", file.display()))),
        None => Ok(Some(Path::new(DEFAULT_FILE).to_owned()).filter(|file| file.is_file())),
    }
}

/// The variables that are meant for us, without the prefix. One that names no section and key
/// (`FENCEPOST_HTTP_BIND`, with one underscore too few) is refused.
fn variables(
    environment: &BTreeMap<String, String>,
) -> Result<config::Map<String, String>, ConfigError> {
    let mut ours = config::Map::new();
    for (name, value) in environment {
        let Some(key) = name.strip_prefix(PREFIX) else {
            continue;
        };
        if OTHERS.iter().any(|other| key.starts_with(other)) {
            continue;
        }
        if !key.contains("__") {
            return Err(ConfigError::about(
                name,
                "is not a configuration key: write FENCEPOST_SECTION__KEY, with two underscores \
                 between the two",
            ));
        }
        ours.insert(key.to_owned(), value.clone());
    }
    Ok(ours)
}

fn with_flags(
    mut builder: ConfigBuilder<DefaultState>,
    flags: &[(String, String)],
) -> Result<ConfigBuilder<DefaultState>, ConfigError> {
    for (key, value) in flags {
        if SECRET_KEYS.contains(&key.as_str()) {
            return Err(ConfigError::about(
                key,
                "is a secret and may not be a flag, which everybody on the machine can read: \
                 use a file or the environment",
            ));
        }
        let value = match list(value) {
            Some(list) => list.map_err(|problem| ConfigError::about(key, problem))?,
            None => value.as_str().into(),
        };
        builder = builder
            .set_override(key, value)
            .map_err(|error| ConfigError::about(key, error))?;
    }
    Ok(builder)
}

/// Takes the lists out of the variables: a source of texts cannot hold them. Flags come later, and win.
fn with_lists(
    mut builder: ConfigBuilder<DefaultState>,
    variables: &mut config::Map<String, String>,
) -> Result<ConfigBuilder<DefaultState>, ConfigError> {
    let mut lists = Vec::new();
    variables.retain(|name, value| match list(value) {
        Some(list) => {
            lists.push((name.clone(), list));
            false
        }
        None => true,
    });
    for (name, list) in lists {
        let about = |problem: &dyn std::fmt::Display| {
            ConfigError::about(&format!("{PREFIX}{name}"), problem)
        };
        let list = list.map_err(|problem| about(&problem))?;
        let key = name.to_lowercase().replace("__", ".");
        builder = builder
            .set_override(key, list)
            .map_err(|error| about(&error))?;
    }
    Ok(builder)
}

/// A value between brackets is a list, as in the file or in JSON; anything else is what it is.
fn list(value: &str) -> Option<Result<config::Value, &'static str>> {
    let value = value.trim();
    if !(value.starts_with('[') && value.ends_with(']')) {
        return None;
    }
    let read = format!("list = {value}").parse::<toml::Table>().ok();
    let elements = read.filter(|table| table.len() == 1).and_then(|mut table| {
        let toml::Value::Array(elements) = table.remove("list")? else {
            return None;
        };
        let elements = elements.into_iter().map(element);
        elements.collect::<Option<Vec<config::Value>>>()
    });
    let expected = "is no list: write it like [\"10.0.0.0/8\", \"fd00::/8\"], texts between quotes";
    Some(elements.map(config::Value::from).ok_or(expected))
}

/// One element of a list: a text, a number, or yes or no.
fn element(value: toml::Value) -> Option<config::Value> {
    match value {
        toml::Value::String(text) => Some(text.into()),
        toml::Value::Integer(number) => Some(number.into()),
        toml::Value::Float(number) => Some(number.into()),
        toml::Value::Boolean(is_so) => Some(is_so.into()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}
