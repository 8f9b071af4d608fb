//! The embedded server against the real Postgres of this machine: its life, what a crash leaves
//! behind, and as whom it runs. As root the suite also plays an ordinary user.

mod lifecycle;
mod orphans;
mod support;
mod users;
