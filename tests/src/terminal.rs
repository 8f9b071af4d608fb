//! A buyer's terminal: `fencepost job …` and its like as a child process, also on a pseudo-terminal.

use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

use serde_json::Value;

use crate::processes::{Process, program, run};
use crate::pty;
use crate::wait::PATIENCE;

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

    /// Runs a command of `fencepost job` to its end.
    pub async fn run(&self, words: &[&str]) -> Output {
        self.buyer(&[&["job"], words].concat()).await
    }

    /// Runs any command of a buyer to its end.
    pub async fn buyer(&self, words: &[&str]) -> Output {
        let environment = [
            ("FENCEPOST_API", self.url.as_str()),
            ("FENCEPOST_KEY", &self.key),
        ];
        run("fencepost", words, &environment).await
    }

    /// What a command of a buyer says to a person; it must succeed.
    pub async fn says(&self, words: &[&str]) -> String {
        let output = self.buyer(words).await;
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).expect("a text")
    }

    /// What a command of a buyer says to a program; it must succeed.
    pub async fn told(&self, words: &[&str]) -> Vec<Value> {
        lines(self.says(&[words, &["--json"]].concat()).await.as_bytes())
    }

    /// What a terminal of so many columns shows of a command of a buyer, and how that ended.
    pub async fn screen(
        &self,
        words: &[&str],
        columns: u16,
        more: &[(&str, &str)],
    ) -> (String, ExitStatus) {
        let mut command = self.command(words);
        command.env_remove("NO_COLOR").env("TERM", "xterm-256color");
        command.envs(more.iter().copied());
        let shown = tokio::task::spawn_blocking(move || pty::shown(command, columns));
        tokio::time::timeout(PATIENCE, shown)
            .await
            .expect("it ends")
            .expect("it starts")
    }

    /// A command of a buyer, not yet started.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program("fencepost"));
        command
            .args(words)
            .env("FENCEPOST_API", &self.url)
            .env("FENCEPOST_KEY", &self.key)
            .stdin(Stdio::null());
        command
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
        let mut command = self.command(&[&["job"], words].concat());
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
