//! What is understood of captions, and what of them FFmpeg is given.

use super::*;
use fencepost_domain::service::caption_burn::Position;

use crate::Size;

fn parse(text: &str) -> Captions {
    Captions::parse(text).expect("captions")
}

fn problem(text: &str) -> (usize, String) {
    Captions::parse(text).expect_err("captions with a mistake")
}

/// What is drawn, and when.
fn dialogue(text: &str) -> Vec<String> {
    let look = Look {
        size: Size::new(640, 360),
        position: Position::Bottom,
        size_percent: 6.0,
    };
    let script = parse(text).as_script(look);
    let lines = script
        .lines()
        .filter_map(|line| line.strip_prefix("Dialogue: "));
    lines
        .map(|line| line.replace("Default,,0,0,0,,", ""))
        .collect()
}

#[test]
fn subrip_is_read_with_marks_and_windows_lines_and_without_numbers() {
    let text = "\u{feff}\r\n1\r\n00:00:01,000 --> 00:00:02,500\r\nHello,\r\n<i>you</i>\r\n\r\n\
                00:01:00.5 --> 00:01:01  X1:1 X2:2\n<font color=\"red\">Red</font> {\\an8}top\n";
    assert_eq!(
        dialogue(text),
        [
            "0,0:00:01.00,0:00:02.50,Hello,\\N{\\i1}you{\\i0}",
            "0,0:01:00.50,0:01:01.00,Red top"
        ]
    );
}

#[test]
fn webvtt_is_read_with_notes_names_settings_and_entities() {
    let text = "WEBVTT Kind: captions\nLanguage: en\n\nNOTE not shown\nat all\n\nSTYLE\n::cue {}\n\n\
                intro\n00:01.000 --> 00:02.000 line:0 align:start\n<v Ann>A &lt;b&gt; &amp; \
                <b.loud>c</b>&#33; <00:01.500>now\n\n\
                01:00:00.000 --> 01:00:01.000\n- two\n- three &unknown; &\n";
    assert_eq!(
        dialogue(text),
        [
            "0,0:00:01.00,0:00:02.00,A <b> & {\\b1}c{\\b0}! now",
            "0,1:00:00.00,1:00:01.00,- two\\N- three &unknown; &"
        ]
    );
}

#[test]
fn text_that_looks_like_codes_is_only_text() {
    let text = "1\n00:00:01,000 --> 00:00:02,000\n{x} \\N \\p1 <3 a < b > c {\n";
    assert_eq!(
        dialogue(text),
        ["0,0:00:01.00,0:00:02.00,\\{x\\} \\\u{2060}N \\\u{2060}p1 <3 a < b > c \\{"]
    );
    let Captions::Cues(cues) = parse("WEBVTT\n\n00:01.000 --> 00:02.000\n1 --&gt; 2 &lt;i>\n")
    else {
        panic!("cues");
    };
    let written = srt::write(&cues, 9_000);
    assert_eq!(written.matches("-->").count(), 1, "{written}");
    assert!(!written.contains("<i>"), "{written}");
}

#[test]
fn a_mistake_is_named_by_its_line() {
    for (text, line, word) in [
        ("#EXTM3U\nfile:///etc/passwd\n", 1, "srt, vtt or ass"),
        (
            "1\n00:00:01,000 --> 00:00:02\nHi\n\nstray text\n",
            5,
            "begin",
        ),
        ("1\n00:00:03,000 --> 00:00:02,000\nHi\n", 2, "ends before"),
        ("1\n00:00:03,000 --> soon\nHi\n", 2, "times"),
        (
            "1\n00:00:01,000 --> 00:00:02,000\nHi\n2\n00:00:03,000 --> 00:00:04,000\n",
            5,
            "empty",
        ),
        ("WEBVTT\n\nname\nno times\n", 4, "times"),
        ("WEBVTT\n\nname", 3, "times"),
        (
            "[Script Info]\n[Events]\nDialogue: 0,now,then,Default,,0,0,0,,Hi\n",
            3,
            "times",
        ),
        ("[Script Info]\n[Events]\nFormat: Layer, Text\n", 3, "Start"),
    ] {
        let (found, problem) = problem(text);
        assert_eq!(found, line, "{text}");
        assert!(problem.contains(word), "{problem}");
    }
}

#[test]
fn captions_have_bounds() {
    let cue = "00:00:01,000 --> 00:00:02,000\nx\n\n";
    assert!(Captions::parse(&cue.repeat(MOST_CUES)).is_ok());
    assert!(problem(&cue.repeat(MOST_CUES + 1)).1.contains("20000"));
    let long = format!("00:00:01,000 --> 00:00:02,000\n{}", "x".repeat(2_001));
    assert_eq!(problem(&long).0, 1);
    let style = "Style: a,b\n".repeat(1_001);
    assert!(Captions::parse(&format!("[Script Info]\n[V4+ Styles]\n{style}")).is_err());
}

#[test]
fn of_a_script_only_what_captions_need_is_taken_over() {
    let text = "[Script Info]\n; by someone\nTitle: secret\nPlayResX: 640\n\n\
                [Aegisub Project Garbage]\nVideo File: /home/me/secret.mp4\n\n\
                [V4+ Styles]\nFormat: Name, Fontname\nStyle: Default,Arial\n\n\
                [Fonts]\nfontname: evil.ttf\nMMMM\n\n[Graphics]\nfilename: evil.bmp\n\n\
                [Events]\nFormat: Layer, Start, End, Text\n\
                Comment: 0,0:00:00.00,0:00:01.00,secret\n\
                Dialogue: 0,0:00:01.00,0:00:02.00,{\\b1}Hi\n";
    let Captions::Script(script) = parse(text) else {
        panic!("a script");
    };
    assert_eq!(
        script.text,
        "[Script Info]\nPlayResX: 640\n[V4+ Styles]\nFormat: Name, Fontname\n\
         Style: Default,Arial\n[Events]\nFormat: Layer, Start, End, Text\n\
         Dialogue: 0,0:00:01.00,0:00:02.00,{\\b1}Hi\n"
    );
    assert_eq!(script.times, [(1_000, 2_000)]);
}

#[test]
fn captions_after_the_end_of_the_film_are_no_captions_of_it() {
    let captions = parse("1\n00:00:05,000 --> 00:00:06,000\nLate\n");
    assert!(captions.require_some_within(Some(5.5)).is_ok());
    assert!(captions.require_some_within(None).is_ok());
    let failure = captions.require_some_within(Some(4.0)).unwrap_err();
    assert_eq!(failure.code(), Some(FailureCode::InputInvalid));
    assert!(parse("").require_some_within(None).is_err());
    let empty = parse("1\n00:00:01,000 --> 00:00:02,000\n<i> </i>\n");
    assert!(empty.require_some_within(Some(4.0)).is_err());
    let subrip = captions.as_subrip(5.5).unwrap();
    assert_eq!(subrip, "1\n00:00:05,000 --> 00:00:05,500\nLate\n\n");
}
