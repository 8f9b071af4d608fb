//! ffprobe's JSON, as far as we read it.
//!
//! Every field is optional: old and new versions leave out different ones.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(crate) struct Report {
    #[serde(default)]
    pub(crate) streams: Vec<Stream>,
    #[serde(default)]
    pub(crate) packets: Vec<Packet>,
    #[serde(default)]
    pub(crate) format: Format,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Packet {
    pub(crate) stream_index: Option<u32>,
    pub(crate) pts_time: Option<String>,
    pub(crate) duration_time: Option<String>,
    #[serde(default)]
    pub(crate) flags: String,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Format {
    pub(crate) start_time: Option<String>,
    pub(crate) duration: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Stream {
    pub(crate) index: u32,
    #[serde(default)]
    pub(crate) codec_type: String,
    pub(crate) codec_name: Option<String>,
    pub(crate) width: Option<u32>,
    pub(crate) height: Option<u32>,
    pub(crate) sample_aspect_ratio: Option<String>,
    pub(crate) pix_fmt: Option<String>,
    pub(crate) color_transfer: Option<String>,
    pub(crate) color_space: Option<String>,
    pub(crate) color_primaries: Option<String>,
    pub(crate) color_range: Option<String>,
    pub(crate) avg_frame_rate: Option<String>,
    pub(crate) r_frame_rate: Option<String>,
    pub(crate) duration: Option<String>,
    start_time: Option<String>,
    pub(crate) channels: Option<u32>,
    #[serde(default)]
    disposition: Value,
    #[serde(default)]
    tags: Value,
    #[serde(default)]
    side_data_list: Vec<Value>,
}

impl Stream {
    pub(crate) fn is_attached_picture(&self) -> bool {
        self.disposition["attached_pic"] == 1
    }

    /// Clockwise rotation to apply before showing, in degrees: 0, 90, 180 or 270.
    pub(crate) fn rotation(&self) -> u16 {
        // A display matrix turns counter-clockwise; the older tag turns clockwise.
        let matrix = self
            .side_data_list
            .iter()
            .find_map(|data| data["rotation"].as_f64());
        let tag = self.tags["rotate"]
            .as_str()
            .and_then(|text| text.parse::<f64>().ok());
        let degrees = matrix
            .map(|turn| -turn)
            .or(tag)
            .unwrap_or(0.0)
            .rem_euclid(360.0);
        match degrees {
            45.0..135.0 => 90,
            135.0..225.0 => 180,
            225.0..315.0 => 270,
            _ => 0,
        }
    }

    /// Length of this stream in seconds; Matroska writes it as a tag.
    pub(crate) fn duration_seconds(&self) -> Option<f64> {
        let field = self.duration.as_deref().and_then(seconds);
        field.or_else(|| self.tags["DURATION"].as_str().and_then(clock_seconds))
    }

    /// When this stream ends, in seconds from the beginning of the file. It may begin late, which
    /// its length does not count, unless it is Matroska's.
    pub(crate) fn end_seconds(&self, format: &Format) -> Option<f64> {
        let field = self.duration.as_deref().and_then(seconds);
        let end = field.map(|length| self.late_seconds(format) + length);
        end.or(self.duration_seconds())
    }

    /// How much later than the file this stream begins, in seconds.
    pub(crate) fn late_seconds(&self, format: &Format) -> f64 {
        let start = |time: &Option<String>| time.as_deref().and_then(seconds).unwrap_or(0.0);
        let late: f64 = start(&self.start_time) - start(&format.start_time);
        late.max(0.0)
    }
}

/// `12.5` as seconds; `N/A` and nonsense as nothing.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    text.parse::<f64>()
        .ok()
        .filter(|s| s.is_finite() && *s >= 0.0)
}

/// `00:01:02.500000000` as seconds.
fn clock_seconds(text: &str) -> Option<f64> {
    text.split(':')
        .try_fold(0.0, |total, part| Some(total * 60.0 + seconds(part)?))
}

/// `30000/1001` or `4:3` as a number; `0/0` as nothing.
pub(crate) fn ratio(text: &str) -> Option<f64> {
    let (over, under) = text.split_once(['/', ':'])?;
    let value = over.parse::<f64>().ok()? / under.parse::<f64>().ok()?;
    (value.is_finite() && value > 0.0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(json: &str) -> Stream {
        serde_json::from_str(json).expect("a stream of ffprobe's")
    }

    #[test]
    fn rotation_is_read_from_the_matrix_and_from_the_tag() {
        let matrix = stream(r#"{"index":0,"side_data_list":[{"rotation":-90}]}"#);
        let tag = stream(r#"{"index":0,"tags":{"rotate":"270"}}"#);
        assert_eq!((matrix.rotation(), tag.rotation()), (90, 270));
    }

    #[test]
    fn a_length_that_is_not_stated_is_unknown() {
        assert_eq!(
            stream(r#"{"index":0,"duration":"N/A"}"#).duration_seconds(),
            None
        );
        let tag = stream(r#"{"index":0,"tags":{"DURATION":"00:01:02.500000000"}}"#);
        assert_eq!(tag.duration_seconds(), Some(62.5));
    }

    #[test]
    fn a_stream_that_begins_late_ends_late() {
        let format = r#"{"start_time":"1.4","duration":"9"}"#;
        let format: Format = serde_json::from_str(format).expect("a format of ffprobe's");
        let ends = |json| stream(json).end_seconds(&format);
        let late = ends(r#"{"index":0,"start_time":"2.4","duration":"5"}"#);
        assert!(late.is_some_and(|end| (end - 6.0).abs() < 1e-9), "{late:?}");
        let tag = r#"{"index":0,"start_time":"2.4","tags":{"DURATION":"00:00:06.5"}}"#;
        assert_eq!(ends(tag), Some(6.5));
        assert_eq!(ends(r#"{"index":0}"#), None);
    }

    #[test]
    fn ratios_without_a_value_are_unknown() {
        assert_eq!(
            (ratio("30/1"), ratio("0/0"), ratio("0:1")),
            (Some(30.0), None, None)
        );
    }
}
