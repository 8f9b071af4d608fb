//! The clock that decides about leases, under the test's control: time is moved, not waited for.

use std::time::Duration;

use sqlx::PgPool;
use time::OffsetDateTime;

/// `authority_now()` of one test database.
#[derive(Clone)]
pub struct Clock {
    pool: PgPool,
}

impl Clock {
    /// The clock of the database that `pool` is connected to.
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// What it shows.
    pub async fn now(&self) -> OffsetDateTime {
        sqlx::query_scalar("select authority_now()")
            .fetch_one(&self.pool)
            .await
            .expect("the clock can be read")
    }

    /// Stops it where it is.
    pub async fn freeze(&self) {
        self.write("update test_clock set frozen_at = coalesce(frozen_at, clock_timestamp()), shift = shift + $1::bigint * interval '1 microsecond'", 0).await;
    }

    /// Lets it run from where the machine's clock is.
    pub async fn run(&self) {
        self.write(
            "update test_clock set frozen_at = null, shift = $1::bigint * interval '1 microsecond'",
            0,
        )
        .await;
    }

    /// Moves it forward.
    pub async fn advance(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("tests stay within a lifetime");
        self.write(
            "update test_clock set shift = shift + $1::bigint * interval '1 microsecond'",
            micros,
        )
        .await;
    }

    /// Moves it back.
    pub async fn go_back(&self, by: Duration) {
        let micros = i64::try_from(by.as_micros()).expect("tests stay within a lifetime");
        self.write(
            "update test_clock set shift = shift + $1::bigint * interval '1 microsecond'",
            -micros,
        )
        .await;
    }

    /// Stops it at an instant.
    pub async fn set(&self, at: OffsetDateTime) {
        sqlx::query("update test_clock set frozen_at = $1, shift = '0'")
            .bind(at)
            .execute(&self.pool)
            .await
            .expect("the clock can be set");
    }

    async fn write(&self, statement: &'static str, micros: i64) {
        sqlx::query(statement)
            .bind(micros)
            .execute(&self.pool)
            .await
            .expect("the clock can be set");
    }
}
