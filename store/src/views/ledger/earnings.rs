//! What providers earn.

use fencepost_domain::ids::ProviderId;

use crate::error::StoreError;
use crate::run::Store;

/// What a provider earned in one month of UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonthEarned {
    /// The month, as in `2026-11`.
    pub month: String,
    /// For how many jobs.
    pub jobs: i64,
    /// How much, in micros.
    pub micros: i64,
}

impl Store {
    /// What a provider earned, month by month, the latest first. Months without an income are left
    /// out.
    pub async fn earnings(&self, provider: ProviderId) -> Result<Vec<MonthEarned>, StoreError> {
        self.read("earnings", move |mut conn| async move {
            sqlx::query_as!(
                MonthEarned,
                r#"-- earnings
                select to_char(created_at at time zone 'UTC', 'YYYY-MM') as "month!",
                    count(*) as "jobs!", sum(amount_micros)::bigint as "micros!"
                from postings where provider_id = $1 group by 1 order by 1 desc"#,
                provider.0
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }
}
