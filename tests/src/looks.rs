//! What a test looks at afterwards: rows, views, money and events, in words.

use fencepost_domain::ids::{AttemptId, JobId};
use fencepost_store::views::JobView;

use crate::lease::Lease;
use crate::world::World;

impl World {
    /// The buyer's view of a job.
    pub async fn job(&self, job: JobId) -> JobView {
        self.store
            .job(self.org, job)
            .await
            .expect("reading runs")
            .expect("the job exists")
    }

    /// A column of a job's row, as text.
    pub async fn job_column(&self, job: JobId, column: &str) -> String {
        self.db
            .text(&format!("select {column} from jobs where id = '{job}'"))
            .await
    }

    /// A column of an attempt's row, as text.
    pub async fn attempt_column(&self, attempt: AttemptId, column: &str) -> String {
        self.db
            .text(&format!(
                "select {column} from attempts where id = '{attempt}'"
            ))
            .await
    }

    /// The statuses of a job and of an attempt, as in `active, running`.
    pub async fn statuses(&self, lease: &Lease) -> String {
        let job = self.job_column(lease.job, "status").await;
        format!(
            "{job}, {}",
            self.attempt_column(lease.attempt, "status").await
        )
    }

    /// What was posted for a job, as in `hold 6000, release 6000`.
    pub async fn postings(&self, job: JobId) -> String {
        let posted = self.store.postings(job).await.expect("reading runs");
        let posted: Vec<String> = posted
            .iter()
            .map(|one| format!("{} {}", one.kind, one.amount_micros))
            .collect();
        posted.join(", ")
    }

    /// The events of a job, as in `job.failed`.
    pub async fn events(&self, job: JobId) -> String {
        let query = format!("select kind from outbox where job_id = '{job}' order by seq");
        self.db.texts(&query).await.join(", ")
    }
}
