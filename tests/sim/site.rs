//! One database for many lists: two gateways' stores on it, and the broom between two lists.

use fencepost_domain::ids::SessionNumber;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fencepost_domain::ids::{DeviceId, JobId, OrgId, ProviderId, UploadId};
use fencepost_store::fence::FenceMode;
use fencepost_store::secrets::Credential;
use fencepost_store::tx::submit_job::NewJob;
use fencepost_store::{Store, StoreSettings};
use fencepost_tests::checker;
use fencepost_tests::world::CREDIT;
use fencepost_tests::{Clock, World};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use crate::call::{Answer, Call};
use crate::names::Names;
use crate::planted::Planted;
use crate::reference::{BEGIN, View};
use crate::rows::{self, HELPERS};

/// Devices of each list.
pub(crate) const DEVICES: usize = 2;

/// With every trigger switched off: history may not be deleted otherwise.
const SWEEP_OUT: &str = "
    delete from attempt_events; delete from attempt_artifacts; delete from attempt_grants;
    delete from idempotency_keys; delete from outbox; delete from postings where job_id is not null;
    delete from attempts; delete from job_inputs; delete from jobs; delete from enrollment_codes; delete from audit_log;
    delete from test_job_history;
    update org_accounts set held_micros = 0, open_jobs = 0,
        stored_bytes = (select sum(size_bytes) from uploads), available_micros = ";

/// The database and who works on it.
pub(crate) struct Site {
    world: World,
    /// One for each gateway.
    pub(crate) stores: [Store; 2],
    /// The first owner of the devices, and another one.
    pub(crate) owners: [ProviderId; 2],
    devices: Vec<DeviceId>,
    upload: UploadId,
    /// A mistake that is to be found.
    pub(crate) planted: Option<Planted>,
    /// How often a call was answered so.
    tally: Mutex<BTreeMap<String, u64>>,
}

/// A connection that reads the rows, and one that sweeps them out.
pub(crate) struct Eyes {
    reading: PgConnection,
    sweeping: PgConnection,
}

impl Site {
    pub(crate) async fn new() -> Self {
        let settings = StoreSettings {
            max_connections: 4,
            ..StoreSettings::default()
        };
        let world = World::with(settings.clone()).await;
        // They fire for every role, and history is deleted between two lists.
        world
            .db
            .execute(
                "alter table postings disable trigger append_only;
                 alter table audit_log disable trigger append_only",
            )
            .await;
        let mut devices = Vec::new();
        for number in 0..DEVICES {
            devices.push(world.device(&format!("mac {number}")).await.id);
        }
        let other = world.store.create_provider("other macs").await;
        let owners = [world.provider, other.expect("a provider can be made")];
        let upload = world.upload().await;
        let stores = [world.store.clone(), world.db.open_store(settings)];
        Self {
            world,
            stores,
            owners,
            devices,
            upload,
            planted: None,
            tally: Mutex::default(),
        }
    }

    pub(crate) fn count(&self, call: &Call, answer: &Answer) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let said = format!("{}: {}", first_word(call), first_word(answer));
        *tally.entry(said).or_default() += 1;
    }

    /// How often each kind of call was answered in which way.
    pub(crate) fn tally(&self) -> BTreeMap<String, u64> {
        let tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.clone()
    }

    /// The same with only a part of the fence in force.
    pub(crate) fn with_fence(mut self, mode: FenceMode) -> Self {
        self.stores = self.stores.map(|store| store.with_fence(mode));
        self
    }

    pub(crate) async fn eyes(&self) -> Eyes {
        let connect = || PgConnection::connect(self.world.db.url());
        let mut eyes = Eyes {
            reading: connect().await.expect("the database lets us in"),
            sweeping: connect().await.expect("the database lets us in"),
        };
        eyes.run(HELPERS).await;
        eyes.run("set session_replication_role = replica").await;
        eyes
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.world.clock
    }

    pub(crate) fn org(&self) -> OrgId {
        self.world.org
    }

    pub(crate) fn new_job(&self, id: JobId) -> NewJob {
        let mut job = self.world.new_job_of(self.upload);
        job.id = id;
        job
    }

    /// Nothing was ever submitted, and no device has connected.
    pub(crate) async fn begin_anew(&self, eyes: &mut Eyes) -> Names {
        let mut statements = vec![format!("{SWEEP_OUT} {CREDIT};")];
        let mut devices = Vec::new();
        for (number, device) in self.devices.iter().enumerate() {
            let credential = Credential::presented(&format!("fp_device_{number}"));
            statements.push(format!(
                "update devices set enabled = true, note = null, forgiven_at = null,
                     current_session = null, void_through = 0, session_counter = 0,
                     supersedes = '{{}}',
                     disconnected_at = null, instance_id = null, provider_id = '{}',
                     token_digest = '\\x{}' where id = '{device}';",
                self.owners[0],
                hex::encode(credential.digest())
            ));
            devices.push((*device, credential));
        }
        let begin = BEGIN.unix_timestamp();
        statements.push(format!(
            "update authority_state set marked_at = to_timestamp({begin}),
                 swept_at = to_timestamp({begin});"
        ));
        eyes.run(&statements.concat()).await;
        self.clock().set(BEGIN).await;
        Names::new(self.owners[0], devices)
    }

    /// A socket is opened: its session's number.
    pub(crate) async fn mint(&self, names: &Names, device: usize) -> Result<Option<i64>, String> {
        let minted = self.stores[0].mint_session(&names.devices[device].1).await;
        let minted = minted.map_err(|error| format!("minting: {error}"))?;
        Ok(minted.map(|(_, SessionNumber(number))| number))
    }
}

fn first_word(of: &impl std::fmt::Debug) -> String {
    let said = format!("{of:?}");
    said.split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap_or_default()
        .to_owned()
}

impl Eyes {
    async fn run(&mut self, statements: &str) {
        let done = sqlx::raw_sql(AssertSqlSafe(statements.to_owned()))
            .execute(&mut self.sweeping)
            .await;
        done.unwrap_or_else(|error| panic!("{statements}: {error}"));
    }

    pub(crate) async fn read(&mut self, names: &Names) -> Result<View, String> {
        rows::read(&mut self.reading, names).await
    }

    /// What must always hold and does not.
    pub(crate) async fn violations(&mut self) -> Vec<String> {
        checker::violations_on(&mut self.reading).await
    }
}
