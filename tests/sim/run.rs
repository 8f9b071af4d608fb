//! A list is run: the real store and the reference side by side, compared after every step.

use fencepost_store::fault;

use crate::call::{Answer, Call};
use crate::drive::{Driven, Driver, transaction_of};
use crate::names::{Learned, Names};
use crate::ops::{Cut, Op, Step};
use crate::plan::{Memory, Plan, plan};
use crate::reference::{Reference, View};
use crate::site::{DEVICES, Eyes, Site};

/// A list under way.
struct Run<'a> {
    site: &'a Site,
    eyes: &'a mut Eyes,
    names: Names,
    world: Reference,
    memory: Memory,
}

/// Runs a list; what was found, if anything.
pub(crate) async fn run(site: &Site, eyes: &mut Eyes, list: &[Step]) -> Result<(), String> {
    let names = site.begin_anew(eyes).await;
    let mut run = Run {
        site,
        eyes,
        names,
        world: Reference::new(DEVICES),
        memory: Memory::default(),
    };
    for device in 0..DEVICES {
        run.connect(device).await?;
    }
    for (number, step) in list.iter().enumerate() {
        let done = match step {
            Step::One { op, gateway, cut } => run.one(op, usize::from(*gateway), *cut).await,
            Step::Both(one, other) => run.both(one, other).await,
        };
        done.map_err(|what| format!("step {number}, {step:?}: {what}"))?;
    }
    Ok(())
}

impl Run<'_> {
    /// The first hello of a device.
    async fn connect(&mut self, device: usize) -> Result<(), String> {
        let hello = Call::Hello {
            device,
            session: 0,
            process: 0,
            held: Vec::new(),
        };
        let call = self.open_socket(hello).await?;
        let call = call.ok_or("a new device could not connect")?;
        self.alone(&call, 0, None).await
    }

    /// The hello on its new socket, unless there is none.
    async fn open_socket(&mut self, mut hello: Call) -> Result<Option<Call>, String> {
        let Call::Hello {
            device, session, ..
        } = &mut hello
        else {
            return Err("only a hello opens a socket".to_owned());
        };
        let expected = self.world.mint(*device);
        let minted = self.site.mint(&self.names, *device).await?;
        if minted != expected {
            return Err(format!(
                "session {minted:?} was minted, expected {expected:?}"
            ));
        }
        *session = minted.unwrap_or(0);
        Ok(minted.map(|_| hello))
    }

    async fn planned(&mut self, op: &Op) -> Result<Option<Call>, String> {
        let call = match plan(op, &self.world, &mut self.memory) {
            Plan::Nothing => return Ok(None),
            Plan::Call(call) => Some(call),
            Plan::Connect(hello) => self.open_socket(hello).await?,
        };
        if let Some(Call::Submit(request)) = &call {
            self.names.name_job(request.slot);
        }
        Ok(call)
    }

    async fn one(&mut self, op: &Op, gateway: usize, cut: Option<Cut>) -> Result<(), String> {
        let Some(call) = self.planned(op).await? else {
            return Ok(());
        };
        self.alone(&call, gateway, cut).await?;
        if is_by_agent_or_buyer(&call) {
            self.memory.last = Some(call);
        }
        Ok(())
    }

    async fn alone(&mut self, call: &Call, gateway: usize, cut: Option<Cut>) -> Result<(), String> {
        let store = &self.site.stores[gateway];
        let name = cut.and(transaction_of(call));
        if let (Some(name), Some(cut)) = (name, cut) {
            let cut = match cut {
                Cut::Before => fault::Cut::Before,
                Cut::After => fault::Cut::After,
            };
            store.faults().cut_commit(name, cut);
        }
        let driven = self.drive(call, gateway).await;
        let was_cut = name.is_some_and(|name| !store.faults().spare_commit(name));
        let answer = self.hear(call, driven)?;
        let expected = self.world.apply(call);
        let (answer, expected) = if was_cut {
            (answer.after_a_cut(), sorted(expected).after_a_cut())
        } else {
            (answer, sorted(expected))
        };
        if answer != expected {
            return Err(format!(
                "{call:?} answered {answer:?}, expected {expected:?}"
            ));
        }
        let found = self.look().await?;
        let expected = self.world.view();
        if found != expected {
            return Err(format!("after {call:?} {}", difference(&found, &expected)));
        }
        Ok(())
    }

    /// Two calls at the same time: what comes of them must be what comes of one after the other.
    async fn both(&mut self, one: &Op, other: &Op) -> Result<(), String> {
        let (Some(one), Some(other)) = (self.planned(one).await?, self.planned(other).await?)
        else {
            return Ok(());
        };
        if !is_one_transaction(&one) || !is_one_transaction(&other) || is_read_twice(&one, &other) {
            self.alone(&one, 0, None).await?;
            // It was planned before the other one happened.
            return self.alone(&other, 1, None).await;
        }
        let (first, second) = tokio::join!(self.drive(&one, 0), self.drive(&other, 1));
        let first = self.hear(&one, first)?;
        let second = self.hear(&other, second)?;
        // A sweep leaves out what others hold, and comes again.
        if [&one, &other]
            .iter()
            .any(|call| matches!(call, Call::Sweep | Call::Tend))
        {
            return self.sweep_after_both([&one, &other]).await;
        }
        let found = self.look().await?;
        let (one, other) = ((&one, &first), (&other, &second));
        let mut looks = Vec::new();
        for (order, leaves_out) in [
            ([one, other], false),
            ([other, one], false),
            ([one, other], true),
            ([other, one], true),
        ] {
            let mut world = self.world.clone();
            if leaves_out {
                world.held_by_others = [one.0, other.0].into_iter().flat_map(jobs_of).collect();
            }
            let answers = order.map(|(call, _)| sorted(world.apply(call)));
            world.held_by_others.clear();
            let are_right = answers == order.map(|(_, answer)| answer.clone());
            if are_right && world.view() == found {
                self.world = world;
                self.number_attempts();
                return Ok(());
            }
            looks.push(format!(
                "{answers:?}, {}",
                difference(&found, &world.view())
            ));
        }
        Err(format!(
            "{one:?} and {other:?} at the same time are neither order:\n one first: {}\n other first: {}",
            looks[0], looks[1]
        ))
    }

    /// Of two rounds at the same time nobody knows whose ids are the newer ones.
    fn number_attempts(&mut self) {
        for (order, at) in self.names.in_order().into_iter().enumerate() {
            if let Some(attempt) = self.world.attempts.get_mut(&at) {
                attempt.order = order;
            }
        }
    }

    async fn sweep_after_both(&mut self, calls: [&Call; 2]) -> Result<(), String> {
        for call in [Call::Sweep, Call::Tend] {
            let driven = self.drive(&call, 0).await;
            self.hear(&call, driven)?;
        }
        let found = self.look().await?;
        let mut looks = Vec::new();
        for order in [calls, [calls[1], calls[0]]] {
            let mut world = self.world.clone();
            for call in order.into_iter().chain([&Call::Sweep, &Call::Tend]) {
                world.apply(call);
            }
            if world.view() == found {
                self.world = world;
                self.number_attempts();
                return Ok(());
            }
            looks.push(difference(&found, &world.view()));
        }
        Err(format!(
            "{calls:?} at the same time are neither order:\n one first: {}\n other first: {}",
            looks[0], looks[1]
        ))
    }

    async fn drive(&self, call: &Call, gateway: usize) -> Driven {
        let driver = Driver {
            site: self.site,
            store: &self.site.stores[gateway],
            names: &self.names,
        };
        match self.site.planted {
            Some(planted) => planted.drive(&driver, call, &self.world).await,
            None => driver.drive(call).await,
        }
    }

    /// Remembers what an answer tells.
    fn hear(&mut self, call: &Call, driven: Driven) -> Result<Answer, String> {
        let (answer, learned): (Answer, Learned) =
            driven.map_err(|error| format!("{call:?} failed: {error}"))?;
        self.names.learn(learned);
        self.site.count(call, &answer);
        match (call, &answer) {
            (Call::Commit { claim, .. }, Answer::Verify(pickup)) => {
                self.memory.tickets.push((claim.at, *pickup));
            }
            (Call::Sweep, Answer::Swept { verify, .. }) => {
                self.memory.tickets.extend(verify.iter().copied());
            }
            _ => {}
        }
        Ok(sorted(answer))
    }

    /// What is stored, after the checker has found nothing.
    async fn look(&mut self) -> Result<View, String> {
        let violations = self.eyes.violations().await;
        if !violations.is_empty() {
            return Err(format!("what must always hold does not: {violations:#?}"));
        }
        self.eyes.read(&self.names).await
    }
}

/// Whoever has no answer to these asks again.
fn is_by_agent_or_buyer(call: &Call) -> bool {
    matches!(
        call,
        Call::Submit(_)
            | Call::Progress { .. }
            | Call::Commit { .. }
            | Call::End { .. }
            | Call::Cancel(_)
            | Call::Hello { .. }
            | Call::Event { .. }
            | Call::Settle { .. }
            | Call::TakeBack { .. }
    )
}

/// The jobs whose rows a call locks, whatever it then does: a round goes past them.
fn jobs_of(call: &Call) -> Vec<usize> {
    match call {
        Call::Commit { claim, .. }
        | Call::End { claim, .. }
        | Call::TakeBack { claim, .. }
        | Call::Event { claim, .. }
        | Call::Grant(claim) => vec![claim.at.0],
        Call::Settle { at, .. } | Call::Revoke(at) => vec![at.0],
        Call::Cancel(slot) => vec![*slot],
        Call::Hello { held, .. } => held.iter().map(|(at, _)| at.0).collect(),
        _ => Vec::new(),
    }
}

/// What can take place at the same time as another. Some are several transactions, each judged for
/// itself elsewhere; a verifier's renewal leaves out what others hold, and comes again.
fn is_one_transaction(call: &Call) -> bool {
    !matches!(
        call,
        Call::AcceptClock | Call::Mark | Call::PullBack | Call::RenewVerification { .. }
    )
}

/// A hello reads the clock after it has locked the device and again after it has locked the attempts;
/// when the clock leaps in between, the time of a take-over is the earlier one. A sweep reads it for
/// each of its steps: one during which the clock goes back has done some of them and is not finished.
fn is_read_twice(one: &Call, other: &Call) -> bool {
    let breaks = |leap: &Call, call: &Call| match leap {
        Call::Advance(_) => matches!(call, Call::Hello { .. }),
        Call::GoBack(_) => matches!(call, Call::Hello { .. } | Call::Sweep),
        _ => false,
    };
    breaks(one, other) || breaks(other, one)
}

/// What is told together is told in any order.
fn sorted(mut answer: Answer) -> Answer {
    match &mut answer {
        Answer::Ended(ended) | Answer::InTwoPlaces(ended) => ended.sort_unstable(),
        Answer::Welcome {
            resumed,
            recorded,
            lost,
            ended,
        } => {
            resumed.sort_unstable();
            recorded.sort_unstable();
            lost.sort_unstable();
            ended.sort_unstable();
        }
        Answer::Swept { ended, verify } => {
            ended.sort_unstable();
            verify.sort_unstable();
        }
        _ => {}
    }
    answer
}

/// The lines in which two views differ.
fn difference(found: &View, expected: &View) -> String {
    let mut said = Vec::new();
    let mut differ = |name: String, found: String, expected: String| {
        if found != expected {
            said.push(format!("{name} is\n  {found}, expected\n  {expected}"));
        }
    };
    let clock = |view: &View| format!("mark {}, swept {}", view.mark, view.swept_at);
    differ("the clock".to_owned(), clock(found), clock(expected));
    for (place, (is, ought)) in found.devices.iter().zip(&expected.devices).enumerate() {
        differ(
            format!("device {place}"),
            format!("{is:?}"),
            format!("{ought:?}"),
        );
    }
    for slot in found.jobs.keys().chain(expected.jobs.keys()) {
        let is = format!("{:?}", found.jobs.get(slot));
        differ(
            format!("job {slot}"),
            is,
            format!("{:?}", expected.jobs.get(slot)),
        );
    }
    for at in found.attempts.keys().chain(expected.attempts.keys()) {
        let is = format!("{:?}", found.attempts.get(at));
        differ(
            format!("attempt {at:?}"),
            is,
            format!("{:?}", expected.attempts.get(at)),
        );
    }
    let events = |view: &View| format!("{:?}", view.events);
    differ("the journal".to_owned(), events(found), events(expected));
    said.dedup();
    said.join("\n")
}
