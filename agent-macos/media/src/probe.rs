//! What is this file? Sniffed first, then asked of ffprobe under a hard deadline.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use crate::child::{self, ChildSpec, Ended, LimitKind, Stdout};
use crate::clean::Names;
use crate::exit::{not_started, require_success};
use crate::report::{Format, Report, Stream, ratio, seconds};
use crate::sniff::{Container, sniff, sniff_picture};
use crate::{FailureCode, MediaFailure, Size, Workbench};

/// More than any honest file's description.
const LONGEST_REPORT: usize = 4 << 20;

/// The largest picture from before high definition.
const LARGEST_OF_OLD: Size = Size::new(1024, 576);

/// The most packets that are looked at for a video's end.
const MOST_PACKETS: usize = 5_000;

/// The inputs of a job that are films or sound, by name.
pub type Sources = BTreeMap<String, Probe>;

/// What a media file says about itself. Claims, not proof: only decoding proves.
#[derive(Debug, Clone, PartialEq)]
pub struct Probe {
    /// Recognised from its first bytes.
    pub container: Container,
    /// Length of the whole file in seconds; nothing if it does not say.
    pub duration_seconds: Option<f64>,
    /// Video streams and attached pictures, in order.
    pub video: Vec<VideoStream>,
    /// Audio streams with a known codec, in order.
    pub audio: Vec<AudioStream>,
    /// Codecs of the caption streams, in order.
    pub captions: Vec<String>,
    /// All streams, also data and what has no known codec.
    pub streams: usize,
}

/// One video stream.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoStream {
    /// Its number among all streams of the file.
    pub index: u32,
    /// FFmpeg's name of the codec.
    pub codec: String,
    /// As stored.
    pub stored: Size,
    /// As shown: turned upright and with square pixels (not rounded to even numbers).
    pub displayed: Size,
    /// Clockwise rotation to apply when showing: 0, 90, 180 or 270 degrees.
    pub rotation: u16,
    /// Whether pixels are square.
    pub square_pixels: bool,
    /// FFmpeg's name of the pixel format; empty if unknown.
    pub pixel_format: String,
    /// Transfer characteristic, such as `bt709` or `smpte2084`; empty if not tagged.
    pub transfer: String,
    /// Matrix that makes brightness and colour of red, green and blue, such as `bt709`; empty if
    /// not tagged.
    pub matrix: String,
    /// What red, green and blue are, such as `bt709`; empty if not tagged.
    pub primaries: String,
    /// `tv` or `pc`, which uses all of a byte; empty if not tagged.
    pub range: String,
    /// Average frames per second.
    pub fps: Option<f64>,
    /// Length in seconds.
    pub duration_seconds: Option<f64>,
    /// How much later than the file it begins, in seconds.
    pub late_seconds: f64,
    /// When it ends, in seconds from the beginning of the file.
    pub end_seconds: Option<f64>,
    /// A cover picture and no video.
    pub attached_picture: bool,
}

impl VideoStream {
    /// Whether its brightness goes beyond what ordinary players show: PQ or HLG. Bit depth says
    /// nothing about that.
    pub fn is_hdr(&self) -> bool {
        matches!(self.transfer.as_str(), "smpte2084" | "arib-std-b67")
    }

    /// The matrix of its colours, as FFmpeg's `scale` calls it. Where none is tagged, players go by
    /// the size.
    pub(crate) fn matrix_or_usual(&self) -> &'static str {
        let Size { width, height } = self.stored;
        let is_old =
            width.max(height) <= LARGEST_OF_OLD.width && width.min(height) <= LARGEST_OF_OLD.height;
        match self.matrix.as_str() {
            "bt709" => "bt709",
            "bt470bg" | "smpte170m" => "smpte170m",
            "smpte240m" => "smpte240m",
            "fcc" => "fcc",
            "bt2020nc" | "bt2020c" => "bt2020",
            _ if is_old => "smpte170m",
            _ => "bt709",
        }
    }

    /// Whether the colours of both mean the same, and both say so.
    pub(crate) fn is_coloured_like(&self, other: &Self) -> bool {
        let said = |video: &Self| {
            let words = [
                &video.matrix,
                &video.primaries,
                &video.transfer,
                &video.range,
            ];
            words.map(String::clone)
        };
        !matches!(self.matrix.as_str(), "" | "unknown" | "gbr") && said(self) == said(other)
    }
}

/// One audio stream.
#[derive(Debug, Clone, PartialEq)]
pub struct AudioStream {
    /// Its number among all streams of the file.
    pub index: u32,
    /// FFmpeg's name of the codec.
    pub codec: String,
    /// Channels.
    pub channels: u32,
    /// Length in seconds.
    pub duration_seconds: Option<f64>,
    /// How much later than the file it begins, in seconds.
    pub late_seconds: f64,
    /// When it ends, in seconds from the beginning of the file: it may begin late.
    pub end_seconds: Option<f64>,
}

impl Probe {
    /// The first real video: cover pictures do not count.
    pub fn main_video(&self) -> Option<&VideoStream> {
        self.video.iter().find(|video| !video.attached_picture)
    }

    /// The first audio track.
    pub fn main_audio(&self) -> Option<&AudioStream> {
        self.audio.first()
    }

    /// How long an output with the main video and, if asked, the main audio will be, in seconds.
    pub fn expected_seconds(&self, with_audio: bool) -> Option<f64> {
        let video = self.main_video()?.end_seconds.or(self.duration_seconds)?;
        match self.main_audio().filter(|_| with_audio) {
            Some(audio) => {
                Some(video.max(audio.end_seconds.or(self.duration_seconds).unwrap_or(video)))
            }
            None => Some(video),
        }
    }
}

/// Describes `file`. A file that is no media file is `input_invalid`.
pub async fn probe(bench: &Workbench, file: &Path) -> Result<Probe, MediaFailure> {
    describe(bench, file, sniff(file).await?).await
}

/// Describes a still picture, which only an output can be.
pub(crate) async fn probe_picture(bench: &Workbench, file: &Path) -> Result<Probe, MediaFailure> {
    describe(bench, file, sniff_picture(file).await?).await
}

/// Whether a video can be taken over from its first packet on: it is a key frame, shown at once,
/// and not the run-up to a cut that the file only describes.
pub(crate) async fn begins_cleanly(
    bench: &Workbench,
    file: &Path,
    container: Container,
    stream: u32,
) -> Result<bool, MediaFailure> {
    let wish = "-show_entries packet=stream_index,pts_time,flags:format=start_time \
                -read_intervals %+#500";
    let report = ask(bench, container, file, wish).await?;
    let start = report.format.start_time.as_deref();
    let start: f64 = start.and_then(|text| text.parse().ok()).unwrap_or(0.0);
    let first = report
        .packets
        .iter()
        .find(|packet| packet.stream_index == Some(stream));
    Ok(first.is_some_and(|packet| {
        let shown = packet
            .pts_time
            .as_deref()
            .and_then(|text| text.parse::<f64>().ok());
        let is_soon = shown.is_some_and(|shown| (-0.001..0.1).contains(&(shown - start)));
        is_soon && packet.flags.contains('K') && !packet.flags.contains('D')
    }))
}

/// When a video ends, in seconds from the beginning of its file, as far as packets from a time on
/// tell; nothing if there are more of them than are worth reading.
pub(crate) async fn ends_after(
    bench: &Workbench,
    (file, container): (&Path, Container),
    stream: u32,
    time: f64,
) -> Result<Option<f64>, MediaFailure> {
    let wish = format!(
        "-select_streams {stream} -show_entries \
         packet=stream_index,pts_time,duration_time:format=start_time \
         -read_intervals {time:.3}%+#{MOST_PACKETS}"
    );
    let report = ask(bench, container, file, &wish).await?;
    if report.packets.len() >= MOST_PACKETS {
        return Ok(None);
    }
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
    let start: f64 = number(&report.format.start_time).unwrap_or(0.0);
    let ends = report.packets.iter().filter_map(|packet| {
        let shown: f64 = number(&packet.pts_time)?;
        Some(shown - start + number(&packet.duration_time).unwrap_or(0.0))
    });
    Ok(Some(ends.fold(time, f64::max)))
}

async fn describe(
    bench: &Workbench,
    file: &Path,
    container: Container,
) -> Result<Probe, MediaFailure> {
    let report = ask(bench, container, file, "-show_format -show_streams").await?;
    Ok(understand(container, &report))
}

/// What ffprobe answers to fixed arguments written as one line.
async fn ask(
    bench: &Workbench,
    container: Container,
    file: &Path,
    wish: &str,
) -> Result<Report, MediaFailure> {
    let spec = ChildSpec {
        program: &bench.tools.ffprobe,
        args: arguments(container, file, wish),
        folder: &bench.folder,
        limits: bench.probe_limits(),
        isolation: &bench.tools.isolation,
        roster: bench.tools.roster.as_ref(),
    };
    let mut finished = child::run(spec, Stdout::Keep(LONGEST_REPORT), &bench.stop)
        .await
        .map_err(|error| not_started("ffprobe", &error))?;
    if finished.ended == Ended::LimitHit(LimitKind::RunTime) {
        return Err(MediaFailure::new(
            FailureCode::Stalled,
            "reading the file's header never ends",
        ));
    }
    finished.stderr = Names::one(file).instead_of_files(&finished.stderr);
    // ffprobe fails for one reason alone if not for the machine's: it cannot read the file.
    require_success("reading the file", &finished, &bench.folder).map_err(
        |failure| match failure {
            MediaFailure::Failed {
                code: FailureCode::RunnerFailed,
                message,
            } => MediaFailure::new(FailureCode::InputInvalid, message),
            other => other,
        },
    )?;
    if finished.stdout_cut {
        return Err(MediaFailure::new(
            FailureCode::InputInvalid,
            "the file's description is endless",
        ));
    }
    serde_json::from_slice(&finished.stdout).map_err(|error| {
        MediaFailure::new(
            FailureCode::InternalError,
            format!("ffprobe's answer is odd: {error}"),
        )
    })
}

fn arguments(container: Container, file: &Path, wish: &str) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["-v", "error", "-hide_banner", "-protocol_whitelist", "file"]
        .into_iter()
        .chain(["-f", container.demuxer(), "-of", "json"])
        .chain(wish.split(' '))
        .chain(["-i"])
        .map(OsString::from)
        .collect();
    let options = container.demuxer_options();
    args.splice(0..0, options.iter().map(OsString::from));
    args.push(file_url(file));
    args
}

/// A path that FFmpeg cannot take for an option or for another protocol.
pub(crate) fn file_url(path: &Path) -> OsString {
    let mut url = OsString::from("file:");
    url.push(path);
    url
}

fn understand(container: Container, report: &Report) -> Probe {
    let of_kind = |kind| report.streams.iter().filter(move |s| s.codec_type == kind);
    let mut probe = Probe {
        container,
        duration_seconds: report.format.duration.as_deref().and_then(seconds),
        video: of_kind("video")
            .map(|stream| video(stream, &report.format))
            .collect(),
        audio: of_kind("audio")
            .filter_map(|stream| audio(stream, &report.format))
            .collect(),
        captions: of_kind("subtitle")
            .map(|stream| stream.codec_name.clone().unwrap_or_default())
            .collect(),
        streams: report.streams.len(),
    };
    // What is alone in a file ends with it. FFmpeg itself writes mp4 whose picture says less: of a
    // rate that varies, with pictures that are stored out of their order.
    if let ([video], 1) = (probe.video.as_mut_slice(), probe.streams) {
        let end = |seconds: f64| seconds.max(probe.duration_seconds.unwrap_or(0.0));
        video.end_seconds = video.end_seconds.map(end);
    }
    probe
}

fn video(stream: &Stream, format: &Format) -> VideoStream {
    let stored = Size::new(stream.width.unwrap_or(0), stream.height.unwrap_or(0));
    let aspect = stream.sample_aspect_ratio.as_deref().and_then(ratio);
    let rotation = stream.rotation();
    let rate = |text: &Option<String>| text.as_deref().and_then(ratio);
    VideoStream {
        index: stream.index,
        codec: stream.codec_name.clone().unwrap_or_default(),
        stored,
        displayed: stored.displayed(aspect.unwrap_or(1.0), rotation),
        rotation,
        square_pixels: aspect.is_none_or(|aspect| (aspect - 1.0).abs() < 1e-6),
        pixel_format: stream.pix_fmt.clone().unwrap_or_default(),
        transfer: stream.color_transfer.clone().unwrap_or_default(),
        matrix: stream.color_space.clone().unwrap_or_default(),
        primaries: stream.color_primaries.clone().unwrap_or_default(),
        range: stream.color_range.clone().unwrap_or_default(),
        fps: rate(&stream.avg_frame_rate).or_else(|| rate(&stream.r_frame_rate)),
        duration_seconds: stream.duration_seconds(),
        late_seconds: stream.late_seconds(format),
        end_seconds: stream.end_seconds(format),
        attached_picture: stream.is_attached_picture(),
    }
}

fn audio(stream: &Stream, format: &Format) -> Option<AudioStream> {
    let codec = stream
        .codec_name
        .clone()
        .filter(|codec| codec != "unknown")?;
    let channels = stream.channels.filter(|&channels| channels > 0)?;
    Some(AudioStream {
        index: stream.index,
        codec,
        channels,
        duration_seconds: stream.duration_seconds(),
        late_seconds: stream.late_seconds(format),
        end_seconds: stream.end_seconds(format),
    })
}
