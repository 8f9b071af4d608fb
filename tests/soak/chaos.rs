//! Kills at random: a gateway, a real agent, Postgres. What was killed comes back, sooner or later.

use std::time::Duration;

use crate::World;
use crate::tally::one;
use fencepost_tests::chance::Chance;

/// Kills something every few seconds until it is over; then everything runs.
pub(crate) async fn reign(world: &mut World, mut chance: Chance, is_over: impl Fn() -> bool) {
    // First something to kill.
    tokio::time::sleep(Duration::from_secs(5)).await;
    while !is_over() {
        match chance.below(10) {
            4..7 if !world.agents.is_empty() => kill_agent(world, &mut chance).await,
            0..7 => kill_gateway(world, &mut chance).await,
            7..9 => kill_postgres(world, &mut chance).await,
            // Both at once: nobody is there to renew.
            _ => {
                world.places[0].kill();
                kill_gateway(world, &mut chance).await;
                if world.places[0].gateway.is_none() {
                    world.places[0].start(&world.stage).await;
                }
                one(&world.tally.gateways);
            }
        }
        tokio::time::sleep(chance.millis(2_000, 6_000)).await;
    }
}

async fn kill_gateway(world: &mut World, chance: &mut Chance) {
    let place = &mut world.places[chance.below(2)];
    place.kill();
    one(&world.tally.gateways);
    tokio::time::sleep(chance.millis(0, 3_000)).await;
    place.start(&world.stage).await;
}

async fn kill_agent(world: &mut World, chance: &mut Chance) {
    let which = chance.below(world.agents.len());
    let agent = &mut world.agents[which];
    agent.process().kill();
    one(&world.tally.agents);
    tokio::time::sleep(chance.millis(0, 4_000)).await;
    agent.start();
}

async fn kill_postgres(world: &mut World, chance: &mut Chance) {
    world.stage.stop_postgres().await;
    one(&world.tally.postgres);
    tokio::time::sleep(chance.millis(0, 3_000)).await;
    world.stage.start_postgres().await;
}
