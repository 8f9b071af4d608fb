//! Remembers to the hour when API keys were used.
//!
//! Locks: the keys, as far as nobody else holds them: whoever does writes the same, or revokes one. Checks:
//! the last use that is written is an hour ago. Writes: when it was.

use fencepost_domain::ids::ApiKeyId;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Store, Transaction, Tx};

struct NoteKeyUse {
    keys: Vec<Uuid>,
}

impl Store {
    /// Notes that these keys are used.
    pub(crate) async fn note_key_use(&self, keys: &[ApiKeyId]) -> Result<(), StoreError> {
        let keys = keys.iter().map(|key| key.0).collect();
        self.execute(NoteKeyUse { keys }).await
    }
}

impl Transaction for NoteKeyUse {
    const NAME: &'static str = "note_key_use";
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        sqlx::query!(
            r#"-- note_key_use
            with unseen as materialized (
                select id from api_keys
                where id = any($1) and (last_used_at is null
                    or last_used_at < authority_now() - interval '1 hour')
                order by id for no key update skip locked
            )
            update api_keys set last_used_at = authority_now()
            where id in (select id from unseen)"#,
            &self.keys
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}
