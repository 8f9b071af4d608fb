use super::*;
use actix::MessageResult;

/// Answers with how many messages it has seen; panics on the third.
struct Fragile(u32);

impl Actor for Fragile {
    type Context = Context<Self>;
}

#[derive(Message)]
#[rtype(result = "u32")]
struct Poke;

impl Handler<Poke> for Fragile {
    type Result = MessageResult<Poke>;
    fn handle(&mut self, _: Poke, _: &mut Self::Context) -> Self::Result {
        self.0 += 1;
        assert!(self.0 < 3, "the third poke is one too many");
        MessageResult(self.0)
    }
}

#[test]
fn an_actor_that_panicked_is_built_again_behind_the_same_handle() {
    let system = actix::System::new();
    system.block_on(async {
        let arbiter = Arbiter::new();
        let handle = supervise("fragile", &arbiter, || Fragile(0));
        assert_eq!(handle.addr().send(Poke).await.unwrap(), 1);
        assert_eq!(handle.addr().send(Poke).await.unwrap(), 2);
        assert!(
            handle.addr().send(Poke).await.is_err(),
            "the panic was swallowed"
        );
        tokio::time::sleep(LOOK_EVERY * 3).await;
        assert_eq!(handle.addr().send(Poke).await.unwrap(), 1);
    });
}

/// Pokes a fragile actor to death, again and again.
struct Bully(Handle<Fragile>);

impl Actor for Bully {
    type Context = Context<Self>;
    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(Duration::from_millis(50), |bully, _| {
            // Full or closed: it is being built again, which is what we want.
            let _ = bully.0.try_send(Poke);
        });
    }
}

#[test]
fn an_actor_that_dies_too_often_ends_the_process_with_a_code() {
    let system = actix::System::new();
    system.block_on(async {
        let arbiter = Arbiter::new();
        // Dies of its first message, every time.
        Bully(supervise("hopeless", &arbiter, || Fragile(2))).start();
    });
    assert_eq!(system.run_with_code().unwrap(), GAVE_UP);
}
