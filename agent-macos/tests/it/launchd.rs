const PLIST: &str = include_str!("../../assets/com.fencepost.agent.plist");

/// What stands right after a key.
fn value(key: &str) -> &'static str {
    let (_, after) = PLIST.split_once(&format!("<key>{key}</key>")).unwrap();
    after
        .split_once('>')
        .map(|(tag, rest)| (tag.trim(), rest))
        .map_or("", |(tag, rest)| {
            if tag.ends_with('/') {
                tag
            } else {
                rest.split_once('<').unwrap().0
            }
        })
}

#[test]
fn launchd_starts_the_agent_again_but_not_in_a_loop_and_gives_it_time_to_hand_back() {
    assert_eq!(value("KeepAlive"), "<true/");
    assert_eq!(value("ProcessType"), "Background");
    assert!(value("ThrottleInterval").parse::<u32>().unwrap() >= 10);
    // The agent needs up to ten seconds after TERM.
    assert!(value("ExitTimeOut").parse::<u32>().unwrap() > 10);
    let arguments = PLIST
        .split_once("<array>")
        .unwrap()
        .1
        .split_once("</array>")
        .unwrap()
        .0;
    for word in [
        "fencepost-agent</string>",
        "<string>run</string>",
        "<string>--state-dir</string>",
        // Told to stay away, it must not end: launchd would start it again.
        "<string>--supervised</string>",
    ] {
        assert!(arguments.contains(word), "{word}");
    }
    assert!(!PLIST.contains("fp_"), "no secret belongs here");
}
