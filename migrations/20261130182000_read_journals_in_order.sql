-- A journal is read from any instant backwards, page by page: its index has to give that order.
create index postings_of_org_in_order on postings (org_id, created_at, id);
drop index postings_of_org_by_time;
drop index postings_of_org;
