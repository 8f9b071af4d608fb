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
    let cues = |count: usize| {
        let cue = |n: usize| format!("0:{}:{}.0 --> 0:{0}:{1}.9\nx\n\n", n / 60, n % 60);
        (0..count).map(cue).collect::<String>()
    };
    assert!(Captions::parse(&cues(3_000)).is_ok());
    let many = |count| cues(2_500).repeat(8) + &cues(count);
    assert!(Captions::parse(&many(0)).is_ok());
    assert!(problem(&many(1)).1.contains("20000"));
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

#[test]
fn more_at_once_than_can_be_read_is_refused_by_its_line() {
    let cue = "00:00:01,000 --> 00:00:02,000\nx\n\n";
    assert!(Captions::parse(&cue.repeat(200)).is_ok());
    let (line, says) = problem(&cue.repeat(201));
    assert_eq!(line, 601);
    assert!(says.contains("200 captions"), "{says}");
    assert_eq!(problem(&format!("WEBVTT\n\n{}", cue.repeat(201))).0, 603);
    let long = format!("00:00:01,000 --> 00:00:02,000\n{}\n\n", "x".repeat(2_000));
    assert!(Captions::parse(&long.repeat(5)).is_ok());
    assert_eq!(problem(&long.repeat(6)).0, 16);
    // One after the other they are no more than one.
    let next = "00:00:02,000 --> 00:00:03,000\nx\n\n";
    assert!(Captions::parse(&(cue.repeat(200) + &next.repeat(200))).is_ok());
}

/// A script of 360 lines' height with these styles and captions.
fn script(styles: &str, texts: &[&str]) -> String {
    let lines = texts
        .iter()
        .map(|text| format!("Dialogue: 0:00:01.00,0:00:02.00,Default,{text}\n"));
    let head = format!(
        "[Script Info]\nPlayResX: 640\nPlayResY: 360\n[V4+ Styles]\n\
         Format: Name, Fontsize, ScaleX, ScaleY, Outline, Shadow\n{styles}\n[Events]\n\
         Format: Start, End, Style, Text\n"
    );
    head + &lines.collect::<String>()
}

#[test]
fn looks_that_would_take_hours_to_draw_are_refused_by_their_line() {
    let usual = "Style: Default,20,100,100,2,1";
    for fine in [
        r"{\fs360\blur30\bord36\xshad-5\be2\t(0,500,\fscx400\fsp20)\frx45\p0\pos(5,9999)}Hi",
        r"{\fscx\fs\fnArial 5000\fade(5000,1,1)}Hi, you",
        r"{\p1}m 0 0 l 100 0 100 100 0 100{\p0}",
    ] {
        let parsed = Captions::parse(&script(usual, &[fine]));
        assert!(parsed.is_ok(), "{fine}: {parsed:?}");
    }
    for (bad, word) in [
        (r"{\fs5000}W", "fs"),
        (r"{\ fs( 5000)}W", "fs"),
        (r"{\fs+100}W", "fs"),
        (r"{\blur500}W", "blur"),
        (r"{\b1\t(0,5,\blur1e9)}W", "blur"),
        (r"{\bord500}W", "bord"),
        (r"{\ybord500}W", "ybord"),
        (r"{\shad-500}W", "shad"),
        (r"{\be100000}W", "be"),
        (r"{\fscx1e9}W", "fscx"),
        (r"{\fax1e3}W", "fax"),
    ] {
        let (line, says) = problem(&script(usual, &["Fine", bad]));
        assert_eq!(line, 10, "{bad}");
        assert!(says.contains(&format!("\\{word} ")), "{bad}: {says}");
    }
    for bad in [
        "5000,100,100,2,1",
        "20,9000,100,2,1",
        "20,100,1e9,2,1",
        "20,100,100,99,1",
    ] {
        let text = script(&format!("Style: Default,{bad}"), &["Fine"]);
        assert_eq!(problem(&text).0, 6, "{bad}");
    }
    let flat = script(usual, &["Fine"]).replace("PlayResY: 360", "PlayResY: 1");
    assert_eq!(problem(&flat).0, 3);
}

#[test]
fn large_letters_count_for_more_than_small_ones() {
    let usual = "Style: Default,20,100,100,2,1";
    let (small, large) = ("x".repeat(1_000), "x".repeat(75));
    assert!(Captions::parse(&script(usual, &[small.as_str(); 10])).is_ok());
    let large = format!(r"{{\fs360}}{large}");
    assert!(Captions::parse(&script(usual, &[&large])).is_ok());
    assert_eq!(problem(&script(usual, &[&large, &large])).0, 10);
    let huge = "Style: Default,360,100,100,2,1";
    assert_eq!(problem(&script(huge, &[&small])).0, 9);
}
