//! The clock's high-water mark moves on.
//!
//! Locks: the one row of `authority_state`, for nothing else. Checks: nothing; whoever calls has
//! compared the clock with another first. Writes: the mark, never backward, at most once a second,
//! whoever keeps it. To be read, the mark is not locked: `authority_mark()`.

use fencepost_domain::clock::ClockReading;

use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};

impl Store {
    /// The clock and its mark.
    pub async fn read_clock(&self) -> Result<ClockReading, StoreError> {
        self.read_reserved("read_clock", |mut conn| async move {
            let reading = sqlx::query_as!(
                ClockReading,
                r#"-- read_clock
                select authority_mark() as "mark!", authority_now() as "now!""#
            );
            reading.fetch_one(&mut *conn).await
        })
        .await
    }

    /// The same for each of those who ask together, to judge when a transfer starts.
    pub async fn clock_for_each(&self, asked: Vec<()>) -> Result<Vec<ClockReading>, StoreError> {
        Ok(vec![self.read_clock().await?; asked.len()])
    }

    /// Moves the mark up to what the clock showed in a reading that is to be believed.
    pub async fn advance_mark(&self, reading: ClockReading) -> Result<(), StoreError> {
        self.execute(AdvanceMark { reading }).await
    }
}

struct AdvanceMark {
    reading: ClockReading,
}

impl Transaction for AdvanceMark {
    const NAME: &'static str = "advance_mark";
    const SHARE: Share = Share::Reserved;
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        // What was read, not what the clock shows by now: that has not been compared.
        sqlx::query!(
            r#"-- advance_mark
            update authority_state set marked_at = greatest(marked_at, $1)
            where marked_at < $1::timestamptz - interval '1 second'"#,
            self.reading.now
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}
