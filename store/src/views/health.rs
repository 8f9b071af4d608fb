//! How devices fare: whether the way in which their last attempts ended keeps work from them.

use std::collections::HashMap;

use fencepost_domain::device_health::{Blame, DeviceHealth, LOOK_BACK, PastAttempt, judge};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::Store;

/// The blame of an attempt by its word, see the function `blame_of`.
pub(crate) fn blame(word: &str) -> Blame {
    match word {
        "returned" => Blame::Returned,
        "failed" => Blame::Failed,
        "elsewhere" => Blame::Elsewhere,
        _ => Blame::None,
    }
}

/// What the devices are judged to be now, if it keeps work from them.
pub(super) struct Closed(HashMap<Uuid, DeviceHealth>);

impl Closed {
    /// Whether a device gets nothing.
    pub(super) fn contains(&self, device: Uuid) -> bool {
        self.0.contains_key(&device)
    }

    /// Since when it gets something again, and whether somebody should look at it; nothing if it
    /// gets work now.
    pub(super) fn until(&self, device: Uuid) -> Option<(OffsetDateTime, bool)> {
        match self.0.get(&device)? {
            DeviceHealth::Open => None,
            DeviceHealth::BackedOff { until } => Some((*until, false)),
            DeviceHealth::Quarantined { until } => Some((*until, true)),
        }
    }
}

impl Store {
    /// Which of these devices get nothing now because of how their last attempts ended.
    pub(super) async fn closed_devices(&self, devices: Vec<Uuid>) -> Result<Closed, StoreError> {
        let look_back = i64::try_from(LOOK_BACK).unwrap_or(i64::MAX);
        let rows = self
            .read("closed_devices", move |mut conn| async move {
                sqlx::query!(
                    r#"-- closed_devices
                    select d.id, a.ended_at, a.blame as "blame!", authority_now() as "now!"
                    from devices d cross join lateral (
                        select id, ended_at, blame_of(attempts, exists (
                            select from jobs j where j.id = job_id and j.inputs @? '$[*].host')) as blame
                        from attempts
                        where device_id = d.id
                            and (d.forgiven_at is null or leased_at > d.forgiven_at)
                        order by id desc limit $2
                    ) a
                    where d.id = any($1) order by d.id, a.id desc"#,
                    &devices,
                    look_back
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let mut past: HashMap<Uuid, Vec<PastAttempt>> = HashMap::new();
        let now = rows.first().map(|row| row.now);
        for row in rows {
            past.entry(row.id).or_default().push(PastAttempt {
                ended_at: row.ended_at,
                blame: blame(&row.blame),
            });
        }
        let judged = past.into_iter().map(|(id, past)| (id, judge(&past)));
        let closed = judged.filter(|(_, health)| now.is_some_and(|now| health.is_closed(now)));
        Ok(Closed(closed.collect()))
    }
}
