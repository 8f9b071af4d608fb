//! Building blocks of FFmpeg's command lines. Pure, so that they can be read and tested without it.

use std::ffi::OsString;
use std::path::Path;

use crate::probe::file_url;
use crate::{Container, Probe};

/// An argument vector.
#[derive(Debug, Default)]
pub(crate) struct Args(pub(crate) Vec<OsString>);

impl Args {
    /// Of a run that is followed by its progress.
    pub(crate) fn followed() -> Self {
        let mut args = Self::default();
        args.words("-hide_banner -nostdin -y -loglevel warning -nostats -progress pipe:1");
        args
    }

    /// Appends one argument.
    pub(crate) fn word(&mut self, word: impl Into<OsString>) -> &mut Self {
        self.0.push(word.into());
        self
    }

    /// Appends fixed arguments written as one line. Never used for anything from outside.
    pub(crate) fn words(&mut self, line: &'static str) -> &mut Self {
        self.0.extend(line.split(' ').map(OsString::from));
        self
    }

    /// Without it FFmpeg skips what is damaged or missing in these sources and exits with 0. It
    /// holds for all of them at once.
    pub(crate) fn strict_about<'a>(
        &mut self,
        sources: impl IntoIterator<Item = &'a Probe>,
    ) -> &mut Self {
        let mut sources = sources.into_iter();
        if !sources.any(|source| source.container.survives_damage()) {
            self.words("-xerror");
        }
        self
    }

    /// Reads a file by the demuxer of its container; no other protocol is open to it.
    pub(crate) fn input(&mut self, container: Container, file: &Path) -> &mut Self {
        self.0
            .extend(container.demuxer_options().iter().map(OsString::from));
        self.input_as(container.demuxer(), file)
    }

    /// Reads a file of ours by the demuxer of this name.
    pub(crate) fn input_as(&mut self, demuxer: &'static str, file: &Path) -> &mut Self {
        self.words("-protocol_whitelist file -f").word(demuxer);
        self.word("-i").word(file_url(file))
    }

    /// Takes a stream into the output.
    pub(crate) fn map(&mut self, input: usize, stream: u32) -> &mut Self {
        self.word("-map").word(format!("{input}:{stream}"))
    }

    /// Tags, chapters and time codes of the sources may name people and places.
    pub(crate) fn nameless(&mut self) -> &mut Self {
        self.words("-map_metadata -1 -map_chapters -1 -dn")
    }

    /// How sound is stored in films: in a layout that every encoder takes and that plays everywhere.
    pub(crate) fn film_sound(&mut self, container: Container, channels: u32) -> &mut Self {
        self.words(match container {
            Container::Webm => "-c:a libopus -b:a 128k",
            _ => "-c:a aac -b:a 160k",
        });
        self.words("-ar 48000 -ac")
            .word(channels.clamp(1, 2).to_string())
    }

    /// Writes a film.
    pub(crate) fn film(&mut self, container: Container, output: &Path) -> &mut Self {
        self.words(match container {
            Container::Mov => "-movflags +faststart -write_tmcd 0 -f mov",
            Container::Webm => "-f webm",
            _ => "-movflags +faststart -write_tmcd 0 -f mp4",
        });
        self.word(file_url(output))
    }
}
