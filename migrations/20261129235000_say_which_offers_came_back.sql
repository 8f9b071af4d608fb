-- An offer that an operator took back is nobody's fault: its device may have the job again at once.
alter table attempts
    add column returned boolean not null default false,
    add constraint returned_was_never_charged check (not (returned and charged)),
    add constraint returned_has_ended check (not returned or ended_at is not null);
comment on column attempts.returned is 'Whether it was an offer that its device gave back, or did not answer: not offered there again for a while.';
