//! What takes long: `cargo test -p fencepost-media --test soak`. One test, so that every child of
//! this process is its own.
#![cfg(test)]
#![expect(dead_code, reason = "the kit serves the short tests too")]

#[path = "media/kit.rs"]
mod kit;
#[path = "media/leaks.rs"]
mod leaks;

#[tokio::test]
async fn five_hundred_failures_at_every_step_leave_no_process() {
    leaks::rounds(500).await;
    assert!(
        kit::soon(|| leaks::children().is_empty()).await,
        "{:?}",
        leaks::children()
    );
}
