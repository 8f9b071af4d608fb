//! Tests of what breaks around us: gateways that die at every point, a database that goes away,
//! peers that fall silent, devices that fail everything. In a binary of its own, because it is slow.

mod crash;
mod delays;
mod devices;
mod garbage;
mod lease_files;
mod leases;
mod notify;
mod phases;
mod postgres;
mod resumes;
mod rivals;
mod rolling;
mod silence;
mod undeliverable;
mod webhooks;
mod work;
