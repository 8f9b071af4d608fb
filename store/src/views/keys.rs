//! API keys, as operators see them.

use fencepost_domain::ids::{ApiKeyId, OrgId};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// An API key; never the key itself, which is nowhere.
#[derive(Debug, Clone)]
pub struct ApiKeyView {
    /// Its id.
    pub id: Uuid,
    /// Whose it is.
    pub org_id: Uuid,
    /// That org's name.
    pub org: String,
    /// How it begins and ends, if that was kept.
    pub hint: Option<String>,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it last opened something, to the hour.
    pub last_used_at: Option<OffsetDateTime>,
    /// From then on it opens nothing.
    pub revoked_at: Option<OffsetDateTime>,
}

impl Store {
    /// Keys, the latest first: of one org or of all, one of them or all.
    pub async fn api_keys(
        &self,
        org: Option<OrgId>,
        key: Option<ApiKeyId>,
    ) -> Result<Vec<ApiKeyView>, StoreError> {
        self.read("api_keys", move |mut conn| async move {
            sqlx::query_as!(
                ApiKeyView,
                r#"-- api_keys
                select k.id, k.org_id, o.name as org, k.hint, k.created_at, k.last_used_at,
                    k.revoked_at
                from api_keys k join orgs o on o.id = k.org_id
                where ($1::uuid is null or k.org_id = $1) and ($2::uuid is null or k.id = $2)
                order by k.created_at desc, k.id desc"#,
                org.map(|org| org.0),
                key.map(|key| key.0)
            )
            .fetch_all(&mut *conn)
            .await
        })
        .await
    }
}
