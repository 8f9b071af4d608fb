//! A verifier says that it is still at it.
//!
//! Locks: attempts, by the update itself. Checks: the verification epoch. Writes: when another
//! gateway may take over. This is not the lease's fence: being late here costs work, never truth.
//! While the clock is behind its mark nothing is taken over, and nothing needs to be renewed.

use fencepost_domain::ids::AttemptId;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};

impl Store {
    /// Keeps verifications from being taken over for a while longer.
    pub async fn renew_verifications(
        &self,
        verifications: Vec<(AttemptId, i64)>,
    ) -> Result<(), StoreError> {
        if verifications.is_empty() {
            return Ok(());
        }
        self.execute(RenewVerifications { verifications }).await
    }
}

struct RenewVerifications {
    verifications: Vec<(AttemptId, i64)>,
}

impl Transaction for RenewVerifications {
    const NAME: &'static str = "renew_verifications";
    const SHARE: Share = Share::Reserved;
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        let ids: Vec<Uuid> = self
            .verifications
            .iter()
            .map(|(attempt, _)| attempt.0)
            .collect();
        let epochs: Vec<i64> = self.verifications.iter().map(|(_, epoch)| *epoch).collect();
        let takeover = tx.settings.verification_takeover.micros();
        sqlx::query!(
            r#"-- renew_verifications
            with mine as materialized (
                select a.id from attempts a
                join unnest($1::uuid[], $2::bigint[]) as v(id, epoch)
                    on a.id = v.id and a.verification_epoch = v.epoch
                where a.status = 'committing'
                order by a.id for no key update of a skip locked
            ), clock as materialized (
                select authority_mark() as mark, authority_now() as now
                from (select count(*) from mine) all_are_locked
            )
            update attempts a set verify_until = clock.now + $3::bigint * interval '1 microsecond'
            from mine, clock where a.id = mine.id and clock.now >= clock.mark"#,
            &ids,
            &epochs,
            takeover
        )
        .execute(&mut **tx)
        .await?;
        Ok(())
    }
}
