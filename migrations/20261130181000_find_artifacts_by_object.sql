-- An artifact refers to the grant of its object: whoever deletes grants (prune_jobs) has to find the
-- artifacts that do, each time, and the collector asks whether an object was named.
create index attempt_artifacts_by_object on attempt_artifacts (object_key);
