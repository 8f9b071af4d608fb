//! A buyer's terminal: `fencepost job …` as a child process.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::processes::{Process, program, run};

/// A terminal with an address and a key.
pub struct Terminal {
    url: String,
    key: String,
}

impl Terminal {
    /// A terminal for the gateway at `url`.
    pub fn new(url: &str, key: &str) -> Self {
        Self {
            url: url.to_owned(),
            key: key.to_owned(),
        }
    }

    /// Runs a command to its end.
    pub async fn run(&self, words: &[&str]) -> Output {
        let mut arguments = vec!["job"];
        arguments.extend(words);
        let environment = [
            ("FENCEPOST_API", self.url.as_str()),
            ("FENCEPOST_KEY", &self.key),
        ];
        run("fencepost", &arguments, &environment).await
    }

    /// The lines that a command says as JSON; it must end with this exit code.
    pub async fn json(&self, words: &[&str], code: i32) -> Vec<Value> {
        let mut words = words.to_vec();
        words.push("--json");
        let output = self.run(&words).await;
        assert_eq!(output.status.code(), Some(code), "{words:?}: {output:?}");
        lines(&output.stdout)
    }

    /// Starts a command whose words go to this file.
    pub fn start(&self, words: &[&str], log_file: &Path) -> Process {
        let mut command = Command::new(program("fencepost"));
        command
            .arg("job")
            .args(words)
            .env("FENCEPOST_API", &self.url)
            .env("FENCEPOST_KEY", &self.key)
            .stdin(Stdio::null());
        Process::start(&mut command, log_file)
    }
}

/// JSON, one value a line.
pub fn lines(text: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(text);
    let values = text.lines().map(serde_json::from_str);
    values
        .collect::<Result<_, _>>()
        .unwrap_or_else(|_| panic!("no JSON: {text}"))
}

/// What a command said to a person about what went wrong.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
