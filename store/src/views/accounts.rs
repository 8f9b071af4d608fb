//! Credentials, money, devices.

use std::collections::HashMap;

use fencepost_domain::ids::{ApiKeyId, DeviceId, OrgId};
use time::OffsetDateTime;
use uuid::Uuid;

use super::jobs::Posted;
use crate::error::StoreError;
use crate::run::Store;
use crate::secrets::Credential;

/// An org's money.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    /// What can be spent, in micros.
    pub available_micros: i64,
    /// What is held for running jobs, in micros.
    pub held_micros: i64,
}

/// A device as an operator sees it.
#[derive(Debug, Clone)]
pub struct DeviceView {
    /// Its id.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Its owner's name.
    pub provider: String,
    /// Whether it may work.
    pub enabled: bool,
    /// Whether it gets no new work.
    pub draining: bool,
    /// Its slots.
    pub slots: i32,
    /// Its live attempts.
    pub live_attempts: i64,
    /// What it can do.
    pub words: Vec<String>,
    /// Its agent's version.
    pub agent_version: Option<String>,
    /// When it last connected.
    pub connected_at: Option<OffsetDateTime>,
    /// Whether its socket is open, as far as any gateway has seen.
    pub connected: bool,
    /// Why it is disabled.
    pub note: Option<String>,
    /// It failed too often of late: until when it gets no work, and whether somebody should look at
    /// it (quarantine).
    pub closed_until: Option<(OffsetDateTime, bool)>,
}

impl Store {
    /// The org that each key belongs to, in order; `None` for an unknown or revoked one. Once an hour the
    /// use of a key is noted too, which keeps nobody out if it cannot be.
    pub async fn orgs_of_keys(
        &self,
        keys: Vec<Credential>,
    ) -> Result<Vec<Option<OrgId>>, StoreError> {
        let digests: Vec<Vec<u8>> = keys.iter().map(|key| key.digest().to_vec()).collect();
        let asked = digests.clone();
        let known = self
            .read("orgs_of_keys", move |mut conn| async move {
                sqlx::query!(
                    r#"-- orgs_of_keys
                    select digest, org_id, id, (last_used_at is null
                        or last_used_at < authority_now() - interval '1 hour') as "is_unseen!"
                    from api_keys where digest = any($1) and revoked_at is null"#,
                    &asked
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let unseen = known.iter().filter(|key| key.is_unseen);
        let unseen: Vec<_> = unseen.map(|key| ApiKeyId(key.id)).collect();
        if !unseen.is_empty()
            && let Err(error) = self.note_key_use(&unseen).await
        {
            tracing::warn!(%error, "the use of keys is noted later");
        }
        let orgs: HashMap<_, _> = known
            .into_iter()
            .map(|key| (key.digest, OrgId(key.org_id)))
            .collect();
        Ok(digests
            .iter()
            .map(|digest| orgs.get(digest).copied())
            .collect())
    }

    /// The device that each token belongs to, in order; `None` for an unknown or void one, and for
    /// one of a disabled device.
    pub async fn devices_of_tokens(
        &self,
        tokens: Vec<Credential>,
    ) -> Result<Vec<Option<DeviceId>>, StoreError> {
        let digests: Vec<Vec<u8>> = tokens.iter().map(|one| one.digest().to_vec()).collect();
        self.read_reserved("devices_of_tokens", move |mut conn| async move {
            let rows = sqlx::query!(
                r#"-- devices_of_tokens
                select token_digest as "digest!", id from devices
                where token_digest = any($1) and enabled"#,
                &digests
            )
            .fetch_all(&mut *conn)
            .await?;
            let devices: HashMap<_, _> = rows
                .into_iter()
                .map(|row| (row.digest, DeviceId(row.id)))
                .collect();
            Ok(digests
                .iter()
                .map(|digest| devices.get(digest).copied())
                .collect())
        })
        .await
    }

    /// An org's balance.
    pub async fn balance(&self, org: OrgId) -> Result<Option<Balance>, StoreError> {
        self.read("balance", move |mut conn| async move {
            let balance = sqlx::query_as!(
                Balance,
                r#"-- balance
                select available_micros, held_micros from org_accounts where org_id = $1"#,
                org.0
            );
            balance.fetch_optional(&mut *conn).await
        })
        .await
    }

    /// What was posted for a job, in order.
    pub async fn postings(
        &self,
        job: fencepost_domain::ids::JobId,
    ) -> Result<Vec<Posted>, StoreError> {
        self.read("postings", move |mut conn| async move {
            sqlx::query_as!(
                Posted,
                r#"-- postings
                select kind::text as "kind!", amount_micros from postings
                where job_id = $1 order by id"#,
                job.0
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }

    /// All orgs: id and name.
    pub async fn orgs(&self) -> Result<Vec<(Uuid, String)>, StoreError> {
        self.read("orgs", |mut conn| async move {
            let rows = sqlx::query!("-- orgs\nselect id, name from orgs order by name")
                .fetch_all(&mut *conn)
                .await?;
            Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
        })
        .await
    }

    /// All providers: id and name.
    pub async fn providers(&self) -> Result<Vec<(Uuid, String)>, StoreError> {
        self.read("providers", |mut conn| async move {
            let rows = sqlx::query!("-- providers\nselect id, name from providers order by name")
                .fetch_all(&mut *conn)
                .await?;
            Ok(rows.into_iter().map(|row| (row.id, row.name)).collect())
        })
        .await
    }

    /// All devices.
    pub async fn devices(&self) -> Result<Vec<DeviceView>, StoreError> {
        let rows = self
            .read("devices", |mut conn| async move {
                sqlx::query!(
                    r#"-- devices
                    select d.id, d.name, p.name as provider, d.enabled, d.draining, d.slots, d.words,
                        d.agent_version, d.connected_at, d.note,
                        (d.current_session is not null and d.disconnected_at is null
                             and gateway_runs(d.gateway_id))
                            as "connected!",
                        (select count(*) from attempts a
                         where a.device_id = d.id and a.ended_at is null) as "live_attempts!"
                    from devices d join providers p on p.id = d.provider_id
                    order by d.created_at"#
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let ids = rows.iter().map(|row| row.id).collect();
        let closed = self.closed_devices(ids).await?;
        let view = rows.into_iter().map(|row| DeviceView {
            closed_until: closed.until(row.id),
            id: row.id,
            name: row.name,
            provider: row.provider,
            enabled: row.enabled,
            draining: row.draining,
            slots: row.slots,
            live_attempts: row.live_attempts,
            words: row.words,
            agent_version: row.agent_version,
            connected_at: row.connected_at,
            connected: row.connected,
            note: row.note,
        });
        Ok(view.collect())
    }
}
