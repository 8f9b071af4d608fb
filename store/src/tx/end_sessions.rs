//! Sockets have closed.
//!
//! Locks: the devices, by id. Writes: that the current session is not connected any more, so that the
//! next one takes nothing over. Nothing else depends on it: leases run on.

use fencepost_domain::ids::{DeviceId, SessionNumber};
use uuid::Uuid;

use crate::error::StoreError;
use crate::run::{Share, Store, Transaction, Tx};

impl Store {
    /// Notes that sessions have ended; for each, whether it was the device's current one.
    pub async fn end_sessions(
        &self,
        sessions: Vec<(DeviceId, SessionNumber)>,
    ) -> Result<Vec<bool>, StoreError> {
        let ended = self
            .execute(EndSessions {
                devices: sessions.iter().map(|(device, _)| device.0).collect(),
                numbers: sessions.iter().map(|(_, number)| number.0).collect(),
            })
            .await?;
        let was_current = |(device, _): &(DeviceId, SessionNumber)| ended.contains(&device.0);
        Ok(sessions.iter().map(was_current).collect())
    }
}

struct EndSessions {
    devices: Vec<Uuid>,
    numbers: Vec<i64>,
}

impl Transaction for EndSessions {
    const NAME: &'static str = "end_sessions";
    const SHARE: Share = Share::Reserved;
    type Output = Vec<Uuid>;

    async fn run(&self, tx: &mut Tx) -> Result<Self::Output, StoreError> {
        let ended = sqlx::query_scalar!(
            r#"-- end_sessions
            with ended as materialized (
                select d.id from devices d
                join unnest($1::uuid[], $2::bigint[]) as e(id, number)
                    on d.id = e.id and d.current_session = e.number
                order by d.id for no key update of d
            )
            update devices d
            -- one that is noted already (by an earlier run, it may be) stays as it was noted
            set disconnected_at = coalesce(d.disconnected_at, authority_now())
            from ended, unnest($1::uuid[], $2::bigint[]) as e(id, number)
            where d.id = ended.id and d.id = e.id and d.current_session = e.number
            returning d.id"#,
            &self.devices,
            &self.numbers
        );
        Ok(ended.fetch_all(&mut **tx).await?)
    }
}
