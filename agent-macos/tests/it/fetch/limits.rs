//! How much is fetched, and how often it is tried.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_file_for_which_there_is_no_room_is_left_to_a_device_that_has_some() {
    let network = &open();
    let got = fetch_with_room(network, vec![whole()], |_| (), Some(24)).await;
    assert_eq!(got.connections, 1);
    let (code, message) = got.failed("no room");
    assert_eq!(code, "download_failed");
    assert!(message.contains("size_bytes"), "{message}");
    // What was promised was thought of when the offer was taken.
    let got = fetch_with_room(
        network,
        vec![whole()],
        |grant| grant.size_bytes = Some(25),
        Some(24),
    );
    assert_eq!(got.await.result.unwrap(), BODY);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_no_device_may_take_is_the_buyers_to_mend_also_where_there_is_no_room() {
    let network = &open();
    let too_long = said("200 OK\r\ncontent-length: 1001", BODY);
    let got = fetch_with_room(network, vec![too_long], |_| (), Some(24)).await;
    assert_eq!(got.connections, 1);
    let (code, message) = got.failed("above the limit");
    assert_eq!(code, "input_invalid", "{message}");
    assert!(message.contains("more than 1000 bytes"), "{message}");
    assert!(message.contains("max_bytes"), "{message}");
    // Of what announces no size it is not known that it is above the limit.
    let longer = said("200 OK", &[b'x'; 500]);
    let got = fetch_with_room(network, vec![longer], |_| (), Some(24)).await;
    assert_eq!(got.failed("no room").0, "download_failed");
}

/// A host without versions that sends this much of a large file, and cuts the line.
fn cut_at(bytes: usize) -> Act {
    said("200 OK\r\ncontent-length: 9000000", &vec![b'x'; bytes])
}

#[tokio::test(flavor = "multi_thread")]
async fn only_getting_further_than_ever_gives_new_tries() {
    let network = &open();
    let large = |grant: &mut InputGrant| grant.max_bytes = Some(9_000_000);
    let (much, little) = (1_600_000, 1);
    // Much and little by turns, for longer than anybody should be asked.
    let turns = [(); 4].map(|()| [cut_at(much), cut_at(little)]);
    let mut acts = turns.concat();
    acts.push(said("200 OK\r\ncontent-length: 25", BODY));
    let alternating = fetch(network, acts, large);
    // Every one further than the one before.
    let further = [1, 2, 3, 4, 5].map(|times| cut_at(times * much));
    let whole = said("200 OK\r\ncontent-length: 25", BODY);
    let growing = fetch(network, [&further[..], &[whole]].concat(), large);
    let (alternating, growing) = tokio::join!(alternating, growing);
    // The first got further; the four after it did not.
    assert_eq!(alternating.connections, 5);
    assert_eq!(alternating.failed("alternating").0, "download_failed");
    assert_eq!(growing.connections, 6);
    assert_eq!(growing.result.unwrap(), BODY);
}
