//! A gateway begins, beside others of the same database or alone, and ends.
//!
//! Locks: the one row of `authority_state`, so that of two that begin at once the second sees the
//! first. Checks: that no other gateway which runs has another key or another store. Writes: its row.
//! A gateway whose row is gone has ended for everybody at once, not only when it has long not swept.

use uuid::Uuid;

use crate::error::StoreError;
use crate::identity::{Difference, GatewayIdentity};
use crate::run::{Store, Transaction, Tx};

/// Why a gateway may not begin, or should not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    /// One that runs works with something else.
    #[error("a gateway that runs on this database has {0}")]
    Differs(Difference),
    /// It has not swept for a day, or has ended.
    #[error("this gateway is no longer known: it did nothing for more than a day; start it again")]
    Forgotten,
}

impl Store {
    /// The gateway whose store this is begins: its sessions are open sockets from the first one on.
    /// Refused beside a running one that differs.
    pub async fn begin_gateway(
        &self,
        identity: GatewayIdentity,
    ) -> Result<Result<(), Stranger>, StoreError> {
        self.execute(BeginGateway { identity }).await
    }

    /// The gateway whose store this is has stopped: nothing of it runs any more.
    pub async fn end_gateway(&self) -> Result<(), StoreError> {
        self.execute(EndGateway).await
    }

    /// Whether the gateway whose store this is stands alone: one that slept may wake up among others,
    /// which began with another key or store meanwhile.
    pub async fn estranged(&self) -> Result<Option<Stranger>, StoreError> {
        let Some(gateway) = self.gateway() else {
            return Ok(None);
        };
        let compared = self.read_reserved("estranged", move |mut conn| async move {
            sqlx::query_as!(
                Difference,
                r#"-- estranged
                select coalesce(bool_or(other.link_key <> own.link_key), false) as "link_key!",
                    coalesce(bool_or(other.webhook_key <> own.webhook_key), false) as "webhook_key!",
                    coalesce(bool_or(other.object_store <> own.object_store), false)
                        as "object_store!"
                from gateways own
                left join gateways other on other.number > own.number and gateway_runs(other.id)
                where own.id = $1 group by own.id"#,
                gateway
            )
            .fetch_optional(&mut *conn)
            .await
        });
        Ok(match compared.await? {
            None => Some(Stranger::Forgotten),
            Some(difference) => difference
                .is_some()
                .then_some(Stranger::Differs(difference)),
        })
    }
}

struct BeginGateway {
    identity: GatewayIdentity,
}

impl Transaction for BeginGateway {
    const NAME: &'static str = "begin_gateway";
    type Output = Result<(), Stranger>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let Some(gateway) = tx.gateway else {
            return Ok(Ok(()));
        };
        sqlx::query!("-- begin_gateway: lock\nselect from authority_state for no key update")
            .fetch_one(&mut **tx)
            .await?;
        tx.point("locked").await;
        let difference = self.compare(tx, gateway).await?;
        if difference.is_some() {
            return Ok(Err(Stranger::Differs(difference)));
        }
        // It may be there: from an earlier run whose COMMIT was not answered.
        sqlx::query!(
            r#"-- begin_gateway
            insert into gateways (id, seen_at, link_key, webhook_key, object_store)
            values ($1, authority_now(), $2, $3, $4)
            on conflict (id) do update set seen_at = excluded.seen_at"#,
            gateway,
            self.identity.link_key.bytes(),
            self.identity.webhook_key.bytes(),
            self.identity.object_store
        )
        .execute(&mut **tx)
        .await?;
        Ok(Ok(()))
    }
}

impl BeginGateway {
    /// With all others that run.
    async fn compare(&self, tx: &mut Tx, gateway: Uuid) -> Result<Difference, StoreError> {
        let difference = sqlx::query_as!(
            Difference,
            r#"-- begin_gateway: compare
            select coalesce(bool_or(link_key <> $2), false) as "link_key!",
                coalesce(bool_or(webhook_key <> $3), false) as "webhook_key!",
                coalesce(bool_or(object_store <> $4), false) as "object_store!"
            from gateways where id <> $1 and gateway_runs(id)"#,
            gateway,
            self.identity.link_key.bytes(),
            self.identity.webhook_key.bytes(),
            self.identity.object_store
        );
        Ok(difference.fetch_one(&mut **tx).await?)
    }
}

struct EndGateway;

impl Transaction for EndGateway {
    const NAME: &'static str = "end_gateway";
    type Output = ();

    async fn run(&self, tx: &mut Tx) -> Result<(), StoreError> {
        if let Some(gateway) = tx.gateway {
            sqlx::query!(
                "-- end_gateway\ndelete from gateways where id = $1",
                gateway
            )
            .execute(&mut **tx)
            .await?;
        }
        Ok(())
    }
}
