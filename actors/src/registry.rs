//! Which session of a device is the newest on this gateway. Ends and stops are addressed to devices
//! and find their session here.

use std::collections::HashMap;

use actix::{Actor, Addr, Context, Handler, Message, MessageResult};
use fencepost_domain::ids::{DeviceId, SessionNumber};
use fencepost_store::FinalizedAttempt;
use fencepost_store::tx::cancel_job::Stopping;
use fencepost_store::tx::reap_workspaces::Reap;
use fencepost_store::views::SessionView;
use serde_json::json;

use crate::messages::{
    AttemptFinalized, ReapWorkspace, SessionRefresh, Snapshot, StopAttempt, Superseded,
};
use crate::session::DeviceSession;
use crate::supervision::refused;
use crate::system::ShutDown;

const MAILBOX: usize = 8192;

/// The newest session of every device that is connected here.
#[derive(Default)]
pub struct Registry {
    sessions: HashMap<DeviceId, Registered>,
}

struct Registered {
    session: SessionNumber,
    addr: Addr<DeviceSession>,
}

/// Session → registry: I said hello and was welcomed. An older session of the device is superseded.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Register {
    /// The device.
    pub device: DeviceId,
    /// The session.
    pub session: SessionNumber,
    /// Its address.
    pub addr: Addr<DeviceSession>,
}

/// Session → registry: I am gone. A late one cannot unregister a newer session.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Unregister {
    /// The device.
    pub device: DeviceId,
    /// The session that is gone.
    pub session: SessionNumber,
}

/// Finalizer, sweeper or HTTP → registry: these have ended; tell their sessions.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RouteEnds(pub Vec<FinalizedAttempt>);

/// HTTP → registry: this attempt must stop; tell its session.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RouteStop(pub Stopping);

/// Sweeper → registry: who is connected here?
#[derive(Message)]
#[rtype(result = "Vec<(DeviceId, SessionNumber)>")]
pub struct ListSessions;

/// Sweeper → registry: what the rows say of the connected devices.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RouteRefresh(pub Vec<SessionView>);

/// Sweeper → registry: these devices are to reap.
#[derive(Message)]
#[rtype(result = "()")]
pub struct RouteReaps(pub Vec<Reap>);

impl Registry {
    fn find(&self, device: DeviceId) -> Option<&Addr<DeviceSession>> {
        self.sessions
            .get(&device)
            .map(|registered| &registered.addr)
    }
}

impl Actor for Registry {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<Register> for Registry {
    type Result = ();
    fn handle(&mut self, new: Register, _: &mut Self::Context) {
        if self
            .sessions
            .get(&new.device)
            .is_some_and(|known| known.session > new.session)
        {
            if new.addr.try_send(Superseded).is_err() {
                refused("session");
            }
            return;
        }
        let registered = Registered {
            session: new.session,
            addr: new.addr,
        };
        if let Some(old) = self.sessions.insert(new.device, registered)
            && old.session < new.session
            && old.addr.try_send(Superseded).is_err()
        {
            // A session that takes no message is stuck or gone; it is closed by its silence.
            refused("session");
        }
    }
}

impl Handler<Unregister> for Registry {
    type Result = ();
    fn handle(&mut self, gone: Unregister, _: &mut Self::Context) {
        if self
            .sessions
            .get(&gone.device)
            .is_some_and(|known| known.session == gone.session)
        {
            self.sessions.remove(&gone.device);
        }
    }
}

impl Handler<RouteEnds> for Registry {
    type Result = ();
    fn handle(&mut self, ends: RouteEnds, _: &mut Self::Context) {
        for end in ends.0 {
            let Some(session) = self.find(end.device()) else {
                continue;
            };
            if session.try_send(AttemptFinalized(end)).is_err() {
                // The next sweep finds it missing from the rows and proves its end again.
                refused("session");
            }
        }
    }
}

impl Handler<RouteStop> for Registry {
    type Result = ();
    fn handle(&mut self, stop: RouteStop, _: &mut Self::Context) {
        let session = self.find(stop.0.device);
        if session.is_some_and(|session| session.try_send(StopAttempt(stop.0)).is_err()) {
            // Every progress reply and the next sweep carry it too.
            refused("session");
        }
    }
}

impl Handler<RouteReaps> for Registry {
    type Result = ();
    fn handle(&mut self, reaps: RouteReaps, _: &mut Self::Context) {
        for reap in reaps.0 {
            let session = self.find(reap.device);
            if session.is_some_and(|one| one.try_send(ReapWorkspace(reap.handle)).is_err()) {
                // Said again to the device's next session, or after a while.
                refused("session");
            }
        }
    }
}

impl Handler<ListSessions> for Registry {
    type Result = MessageResult<ListSessions>;
    fn handle(&mut self, _: ListSessions, _: &mut Self::Context) -> Self::Result {
        self.sessions.retain(|_, known| known.addr.connected());
        let sessions = self
            .sessions
            .iter()
            .map(|(device, known)| (*device, known.session));
        MessageResult(sessions.collect())
    }
}

impl Handler<RouteRefresh> for Registry {
    type Result = ();
    fn handle(&mut self, refresh: RouteRefresh, _: &mut Self::Context) {
        for view in refresh.0 {
            let Some(session) = self.find(view.device) else {
                continue;
            };
            if session.try_send(SessionRefresh(view)).is_err() {
                refused("session");
            }
        }
    }
}

impl Handler<ShutDown> for Registry {
    type Result = ();
    fn handle(&mut self, _: ShutDown, _: &mut Self::Context) {
        for known in self.sessions.values() {
            if known.addr.try_send(ShutDown).is_err() {
                refused("session");
            }
        }
    }
}

impl Handler<Snapshot> for Registry {
    type Result = MessageResult<Snapshot>;
    fn handle(&mut self, _: Snapshot, _: &mut Self::Context) -> Self::Result {
        MessageResult(json!({ "sessions": self.sessions.len() }))
    }
}
