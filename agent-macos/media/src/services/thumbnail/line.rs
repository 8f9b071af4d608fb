//! The command lines that find a frame and make a picture of it.

use std::path::Path;

use fencepost_domain::service::thumbnail::PictureFormat;

use super::Still;
use super::reading::Reading;
use crate::Size;
use crate::args::Args;
use crate::picture::tone_mapping;
use crate::probe::file_url;

/// Which of the frames that are read becomes the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// The one of this number, counted from 0.
    Number(u64),
    /// One that resembles the others.
    Typical,
}

impl Still<'_> {
    /// FFmpeg's arguments for reading from a time on; `roughly` from the frame on that has to be
    /// decoded for that, however long before it was shown.
    fn reading(&self, input: &Path, from: Option<f64>, roughly: bool) -> Args {
        let mut args = Args::followed();
        args.strict_about([self.source]);
        if let Some(from) = from {
            if roughly {
                args.words("-noaccurate_seek");
            }
            args.words("-ss").word(format!("{from:.6}"));
        }
        args.input(self.source.container, input);
        args
    }

    pub(super) fn counting(&self, input: &Path, reading: Reading) -> Args {
        let mut args = self.reading(input, reading.from, true);
        args.map(0, self.video);
        args.word("-vf")
            .word(format!("trim=end={:.6}", reading.until));
        args.words("-fps_mode passthrough -f null -");
        args
    }

    pub(super) fn taking(
        &self,
        input: &Path,
        output: &Path,
        from: Option<f64>,
        choice: Choice,
    ) -> Args {
        let mut args = self.reading(input, from, choice != Choice::Typical);
        if let Choice::Number(number) = choice {
            // Shows that work goes on while the frames before are decoded.
            args.map(0, self.video);
            args.words("-fps_mode passthrough -frames:v");
            args.word((number + 1).to_string()).words("-f null -");
        }
        args.map(0, self.video).nameless();
        args.word("-vf").word(self.filters(choice).join(","));
        args.words(match self.format {
            PictureFormat::Jpeg => "-c:v mjpeg -q:v 2",
            PictureFormat::Png => "-c:v png -pred mixed",
        });
        args.words("-fps_mode passthrough -frames:v 1 -f image2pipe");
        args.word(file_url(output));
        args
    }

    /// The filters between decoder and encoder. FFmpeg has turned the picture upright before.
    pub(super) fn filters(&self, choice: Choice) -> Vec<String> {
        let Size { width, height } = self.size;
        let mut chain = vec![
            match choice {
                Choice::Number(number) => format!("select='eq(n,{number})'"),
                // Twelve times as much is looked at, and not much more is held in memory.
                Choice::Typical => "select='not(mod(n,12))'".to_owned(),
            },
            format!("scale={width}:{height}:flags=bicubic"),
        ];
        if let Some(transfer) = self.tone_map_from {
            // Not every size can have colours of half the size.
            chain.push("format=yuv444p10le".to_owned());
            chain.extend(tone_mapping(transfer));
        }
        if choice == Choice::Typical {
            chain.push("thumbnail=24".to_owned());
        }
        // Cameras write into frames too who they are and where.
        chain.push("metadata=mode=delete,sidedata=mode=delete".to_owned());
        chain.push(match self.format {
            // JPEG knows one matrix and the full range.
            PictureFormat::Jpeg => "scale=out_color_matrix=bt601:out_range=pc".to_owned(),
            PictureFormat::Png => "scale=flags=bicubic+full_chroma_int+accurate_rnd".to_owned(),
        });
        chain.push("setsar=1".to_owned());
        chain.push(match self.format {
            PictureFormat::Jpeg => "format=yuvj420p".to_owned(),
            PictureFormat::Png => "format=rgb24".to_owned(),
        });
        chain
    }
}
