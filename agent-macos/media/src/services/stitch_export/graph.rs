//! FFmpeg's arguments for a film of clips: every clip is opened on its own and goes through filters
//! that make all of them alike, before they are joined.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use fencepost_domain::service::StitchExportParams;

use super::film::{Cut, Film};
use super::fit;
use crate::args::Args;
use crate::picture::Picture;
use crate::services::{transcode, video_of};
use crate::work::{file_of, invalid};
use crate::{Encoder, MediaFailure, Probe, Sources};

/// Everything decided before FFmpeg starts.
pub(super) struct Graph<'a> {
    pub(super) params: &'a StitchExportParams,
    pub(super) film: &'a Film,
    pub(super) cuts: &'a [Cut],
    pub(super) sources: &'a Sources,
    pub(super) encoder: Encoder,
    pub(super) tone_maps: bool,
}

impl Graph<'_> {
    /// The whole command line.
    pub(super) fn arguments(
        &self,
        files: &BTreeMap<String, PathBuf>,
        (output, stop_after_seconds): (&Path, u32),
    ) -> Result<Args, MediaFailure> {
        let container = transcode::container(self.params.encode.codec);
        let mut args = Args::followed();
        args.strict_about(self.sources.values());
        for cut in self.cuts {
            self.open(&mut args, cut, files)?;
        }
        let (text, picture) = self.filters()?;
        args.word("-filter_complex").word(text);
        args.words("-map [picture]");
        if self.film.sound {
            args.words("-map [sound]");
        }
        args.nameless();
        picture.encode(&mut args);
        if self.film.sound {
            args.film_sound(container, 2);
        }
        args.word("-t").word(stop_after_seconds.to_string());
        args.film(container, output);
        Ok(args)
    }

    /// Opens a clip at the key frame before its start, or at its beginning. What comes before the
    /// start is dropped by the filters, which know which picture is still shown then; FFmpeg would
    /// drop that too.
    fn open(
        &self,
        args: &mut Args,
        cut: &Cut,
        files: &BTreeMap<String, PathBuf>,
    ) -> Result<(), MediaFailure> {
        // All decoders are open at once, and one works at a time.
        match self.cuts.len() {
            0..=4 => {}
            5..=16 => drop(args.words("-threads 2")),
            _ => drop(args.words("-threads 1")),
        }
        // Anew for another picture size would be anew for the whole film; `scale` can do without.
        args.words("-reinit_filter:v 0");
        let source = self.source(cut)?;
        if cut.start > 0.0 && source.container.finds_times() {
            args.words("-noaccurate_seek -ss");
            args.word(cut.start.to_string());
        } else if cut.start > 0.0 {
            args.word("-itsoffset").word(format!("-{}", cut.start));
        }
        args.input(source.container, file_of(files, &cut.input)?);
        Ok(())
    }

    /// The command line that only counts the frames which a clip gives to the film.
    pub(super) fn counting(
        &self,
        cut: &Cut,
        files: &BTreeMap<String, PathBuf>,
    ) -> Result<Args, MediaFailure> {
        let source = self.source(cut)?;
        let mut args = Args::followed();
        args.strict_about([source]);
        self.open(&mut args, cut, files)?;
        let picture = self.picture(source, cut)?;
        let chain = self.picture_chain(0, (source, cut), &picture)?;
        args.word("-filter_complex").word(chain);
        args.words("-map [v0] -fps_mode passthrough -f null -");
        Ok(args)
    }

    /// How long nothing may come out, in seconds, while clips are read up to their starts: as long
    /// as it would take to watch that.
    pub(super) fn run_up(&self) -> f64 {
        let read = |cut: &&Cut| {
            let source = self.sources.get(&cut.input);
            source.is_some_and(|source| !source.container.finds_times())
        };
        self.cuts.iter().filter(read).map(|cut| cut.start).sum()
    }

    /// The filters, and how what comes out of them is encoded.
    pub(super) fn filters(&self) -> Result<(String, Picture), MediaFailure> {
        let mut chains = Vec::new();
        let mut joined = String::new();
        let mut whole = None;
        for (number, cut) in self.cuts.iter().enumerate() {
            let source = self.source(cut)?;
            let picture = self.picture(source, cut)?;
            chains.push(self.picture_chain(number, (source, cut), &picture)?);
            chains.push(self.sound_chain(number, (source, cut)));
            // Writing into a string cannot fail.
            let _ = write!(joined, "[v{number}][a{number}]");
            // One clip whose colours were made others, and the film is tagged as what it became.
            let is_first = whole.is_none();
            if is_first || picture.becomes_bt709() {
                whole = Some(picture);
            }
        }
        let whole = whole.ok_or_else(|| invalid("there are no clips"))?;
        let (count, fps) = (self.cuts.len(), self.film.fps);
        // Sound is joined even where the film has none: it says exactly how long a clip is.
        chains.push(format!("{joined}concat=n={count}:v=1:a=1[film][sound]"));
        let tags = if whole.becomes_bt709() {
            ",setparams=range=tv:color_primaries=bt709:color_trc=bt709:colorspace=bt709"
        } else {
            ""
        };
        chains.push(format!("[film]setpts=N/{fps}/TB{tags}[picture]"));
        if !self.film.sound {
            chains.push("[sound]anullsink".to_owned());
        }
        Ok((chains.join(";"), whole))
    }

    fn picture(&self, source: &Probe, cut: &Cut) -> Result<Picture, MediaFailure> {
        let video = video_of(source, &cut.input)?;
        let quality = transcode::quality(&self.params.encode);
        let mut picture = Picture::of(video, self.film.size, self.encoder, quality, self.tone_maps);
        picture.fps = Some(self.film.fps);
        if self.tone_maps && self.film.ordinary && video.is_hdr() {
            picture.tone_map_from = Some(video.transfer.clone());
        }
        if picture.tone_map_from.is_none() && !self.film.coloured_alike {
            picture.matrix_from = Some(video.matrix_or_usual());
        }
        Ok(picture)
    }

    fn picture_chain(
        &self,
        number: usize,
        (source, cut): (&Probe, &Cut),
        picture: &Picture,
    ) -> Result<String, MediaFailure> {
        let video = video_of(source, &cut.input)?;
        let (fps, frames) = (self.film.fps, cut.frames);
        let mut chain = vec![format!("fps={fps}:start_time=0:eof_action=pass")];
        chain.extend(fit::filters(video, self.params.fit, picture));
        picture.finish(&mut chain);
        // The last picture may stand for as long as pictures of this source do, and no longer: a
        // source that was cut must not become a still.
        let longest = 1.0 + 2.0 / video.fps.unwrap_or(1.0).max(0.05);
        chain.push(format!("tpad=stop_mode=clone:stop_duration={longest:.3}"));
        chain.push(format!("trim=end_frame={frames},setpts=PTS-STARTPTS"));
        let (video, chain) = (video.index, chain.join(","));
        Ok(format!("[{number}:{video}]{chain}[v{number}]"))
    }

    fn sound_chain(&self, number: usize, (source, cut): (&Probe, &Cut)) -> String {
        let seconds = self.film.seconds(cut.frames);
        let alike = "aformat=sample_fmts=fltp:channel_layouts=stereo";
        let cut = format!("atrim=end={seconds:.6},asetpts=PTS-STARTPTS[a{number}]");
        match source.main_audio().filter(|_| self.film.sound) {
            // `aresample` fills gaps, and the time before a sound that begins late, with silence.
            Some(audio) => format!(
                "[{number}:{}]atrim=start=0,aresample=48000:async=1:first_pts=0,{alike},apad,{cut}",
                audio.index
            ),
            None => format!("anullsrc=r=48000:cl=stereo,{alike},{cut}"),
        }
    }

    fn source(&self, cut: &Cut) -> Result<&Probe, MediaFailure> {
        let name = &cut.input;
        let source = self.sources.get(name);
        source.ok_or_else(|| invalid(format!("the job has no input {name}")))
    }
}
