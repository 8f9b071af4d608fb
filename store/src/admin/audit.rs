//! What operators did, written in the transaction that did it.

use fencepost_domain::text::clean;
use serde_json::Value;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Tx;

const MAX_NAME_BYTES: usize = 200;

/// Who does something as an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(String);

impl Actor {
    /// An actor by its name; cleaned and bounded.
    pub fn new(name: &str) -> Self {
        Self(clean(name, MAX_NAME_BYTES))
    }
}

/// One line of the audit log. Made before its transaction, so that a second run of it writes the
/// same line.
#[derive(Debug, Clone)]
pub(crate) struct AuditLine {
    id: Uuid,
    actor: Actor,
    action: &'static str,
    subject: String,
}

impl AuditLine {
    /// `actor` does `action` (such as `clock.accept`) to `subject`.
    pub(crate) fn new(actor: &Actor, action: &'static str, subject: &impl ToString) -> Self {
        Self {
            id: Uuid::now_v7(),
            actor: actor.clone(),
            action,
            subject: subject.to_string(),
        }
    }

    /// Writes it, with an object of what else is worth knowing. No secrets.
    pub(crate) async fn write(&self, tx: &mut Tx, detail: Value) -> Result<(), StoreError> {
        let written = sqlx::query!(
            r#"-- audit
            insert into audit_log (id, actor, action, subject, detail) values ($1, $2, $3, $4, $5)
            on conflict (id) do nothing"#,
            self.id,
            self.actor.0,
            self.action,
            self.subject,
            detail
        )
        .execute(&mut **tx)
        .await?
        .rows_affected();
        // An earlier run of the transaction may have written it.
        if written == 1 || tx.rerun {
            Ok(())
        } else {
            let what = format!("a line was written {written} times");
            Err(StoreError::inconsistent("audit_log", what))
        }
    }

    /// The detail of this very line, if an earlier run of its transaction was committed.
    pub(crate) async fn written(&self, tx: &mut Tx) -> Result<Option<Value>, StoreError> {
        let detail = sqlx::query_scalar!(
            r#"-- audit: find
            select detail from audit_log where id = $1"#,
            self.id
        );
        Ok(detail.fetch_optional(&mut **tx).await?)
    }
}
