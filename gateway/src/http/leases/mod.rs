//! `/v1/provider/leases`: leases outside a socket, for workers that may span processes.
//!
//! The requests are those of a session, one for one, with the device's token as bearer. Each has a
//! `request_id` that is the device's own: the same one with the same content gets the same answer.

mod answer;
mod claim;
mod ends;
mod reading;
mod records;
mod work;

use actix_web::web::{self, ServiceConfig};

use super::resource;

/// Every address of leases.
pub(super) fn routes(config: &mut ServiceConfig) {
    let of_lease = |operation| resource(&format!("/v1/provider/leases/{{attempt}}/{operation}"));
    config
        .service(resource("/v1/provider/leases").route(web::post().to(claim::claim)))
        .service(of_lease("progress").route(web::post().to(work::progress)))
        .service(of_lease("renew").route(web::post().to(work::renew)))
        .service(of_lease("grants").route(web::post().to(work::grant)))
        .service(of_lease("events").route(web::post().to(records::event)))
        .service(of_lease("artifacts").route(web::post().to(records::artifact)))
        .service(of_lease("retain").route(web::post().to(records::retain)))
        .service(of_lease("commit").route(web::post().to(ends::commit)))
        .service(of_lease("fail").route(web::post().to(ends::fail)))
        .service(of_lease("release").route(web::post().to(ends::release)));
}
