//! What operators did.

use serde_json::Value;
use time::OffsetDateTime;

use crate::error::StoreError;
use crate::run::Store;

/// One line of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditView {
    /// When it was done.
    pub at: OffsetDateTime,
    /// Who did it.
    pub actor: String,
    /// What was done, such as `clock.accept`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// What else is worth knowing.
    pub detail: Value,
}

impl Store {
    /// The last `limit` lines, the latest first; only those about `subject` if one is given.
    pub async fn audit_log(
        &self,
        subject: Option<String>,
        limit: i64,
    ) -> Result<Vec<AuditView>, StoreError> {
        self.read("audit_log", move |mut conn| async move {
            sqlx::query_as!(
                AuditView,
                r#"-- audit_log
                select at, actor, action, subject, detail from audit_log
                where $1::text is null or subject = $1 order by at desc, id desc limit $2"#,
                subject,
                limit
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }
}
