//! What moved on an org's account, and what it adds up to over a time.

use fencepost_domain::ids::OrgId;
use fencepost_domain::ledger::{PostingKind, PostingName};
use fencepost_domain::period::Period;
use time::OffsetDateTime;

use crate::error::StoreError;
use crate::run::Store;
use crate::views::Balance;

/// One movement of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostingView {
    /// Its name, which has why it moved, and for which job.
    pub name: PostingName,
    /// How much, in micros.
    pub amount_micros: i64,
    /// When it moved.
    pub created_at: OffsetDateTime,
}

/// Which movements to list.
#[derive(Debug, Clone, Default)]
pub struct JournalFilter {
    /// Only those within this time.
    pub period: Option<Period>,
    /// Only those of this kind.
    pub kind: Option<PostingKind>,
    /// Only those before this one (the latest come first).
    pub before: Option<PostingName>,
    /// At most so many.
    pub limit: i64,
}

/// What moved for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindTotal {
    /// Why it moved.
    pub kind: PostingKind,
    /// How often.
    pub postings: i64,
    /// How much altogether, in micros.
    pub micros: i64,
}

/// An org's account over a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// Before its first instant.
    pub opening: Balance,
    /// Before the first instant after it; as of now if it is not over.
    pub closing: Balance,
    /// What moved meanwhile, by kind.
    pub totals: Vec<KindTotal>,
}

/// What the movements of one kind add up to, within a time and after it.
struct Moved {
    kind: String,
    postings: i64,
    within: i64,
    after: i64,
}

impl Store {
    /// Movements on an org's account, the latest first.
    pub async fn journal(
        &self,
        org: OrgId,
        filter: JournalFilter,
    ) -> Result<Vec<PostingView>, StoreError> {
        let (from, until) = filter
            .period
            .map(|period| (period.from, period.until))
            .unzip();
        let kind = filter.kind.map(PostingKind::as_str);
        let (before, about) = filter
            .before
            .map(|name| (name.kind.as_str(), name.about))
            .unzip();
        let rows = self
            .read("journal", move |mut conn| async move {
                sqlx::query!(
                    r#"-- journal
                    with before as materialized (
                        select created_at, id from postings
                        where org_id = $1 and kind::text = $2 and (job_id = $7 or request_id = $7)
                    )
                    select kind::text as "kind!", coalesce(job_id, request_id) as "about!",
                        amount_micros, created_at
                    from postings
                    -- by time, whose index finds any page and any month, however much there is
                    where org_id = $1 and created_at >= coalesce($3::timestamptz, '-infinity')
                        and created_at < coalesce($4::timestamptz, 'infinity')
                        and ($2::text is null or exists (select from before))
                        and (created_at, id) < (
                            coalesce((select created_at from before), 'infinity'),
                            coalesce((select id from before), 9223372036854775807))
                        and ($5::text is null or kind::text = $5)
                    order by created_at desc, id desc limit $6"#,
                    org.0,
                    before,
                    from,
                    until,
                    kind,
                    filter.limit,
                    about
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let read = rows.into_iter().map(|row| {
            Ok(PostingView {
                name: PostingName {
                    kind: kind_of(&row.kind)?,
                    about: row.about,
                },
                amount_micros: row.amount_micros,
                created_at: row.created_at,
            })
        });
        read.collect()
    }

    /// An org's account over a time; `None` without such an org. Reckoned back from the balance, so
    /// that only what moved since is read.
    pub async fn statement(
        &self,
        org: OrgId,
        period: Period,
    ) -> Result<Option<Statement>, StoreError> {
        let (from, until) = (period.from, period.until);
        let rows = self
            .read("statement", move |mut conn| async move {
                sqlx::query!(
                    r#"-- statement
                    select o.available_micros, o.held_micros, p.kind as "kind?",
                        p.postings as "postings?", p.within as "within?", p.after as "after?"
                    from org_accounts o left join lateral (
                        select kind::text as kind,
                            count(*) filter (where created_at < $3) as postings,
                            coalesce(sum(amount_micros) filter (where created_at < $3), 0)::bigint
                                as within,
                            coalesce(sum(amount_micros) filter (where created_at >= $3), 0)::bigint
                                as after
                        from postings where org_id = o.org_id and created_at >= $2 group by kind
                    ) p on true
                    where o.org_id = $1"#,
                    org.0,
                    from,
                    until
                )
                .fetch_all(&mut *conn)
                .await
            })
            .await?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let now = Balance {
            available_micros: first.available_micros,
            held_micros: first.held_micros,
        };
        let moved = rows.into_iter().filter_map(|row| {
            Some(Moved {
                kind: row.kind?,
                postings: row.postings?,
                within: row.within?,
                after: row.after?,
            })
        });
        reckon(now, moved.collect()).map(Some)
    }
}

/// Takes off what moved after the time, then what moved within it.
fn reckon(now: Balance, moved: Vec<Moved>) -> Result<Statement, StoreError> {
    let (mut closing, mut within, mut totals) = (now, (0, 0), Vec::new());
    for one in moved {
        let kind = kind_of(&one.kind)?;
        let (available, held) = kind.effect(one.after);
        closing.available_micros -= available;
        closing.held_micros -= held;
        let (available, held) = kind.effect(one.within);
        within = (within.0 + available, within.1 + held);
        if one.postings > 0 {
            totals.push(KindTotal {
                kind,
                postings: one.postings,
                micros: one.within,
            });
        }
    }
    totals.sort_by_key(|total| total.kind);
    Ok(Statement {
        opening: Balance {
            available_micros: closing.available_micros - within.0,
            held_micros: closing.held_micros - within.1,
        },
        closing,
        totals,
    })
}

fn kind_of(label: &str) -> Result<PostingKind, StoreError> {
    PostingKind::parse(label)
        .ok_or_else(|| StoreError::inconsistent("postings", format!("unknown kind {label}")))
}
