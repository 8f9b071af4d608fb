//! Nothing depends on notifications: there are none, so that all other tests show that polling alone
//! is enough.

use std::path::Path;

/// Whether a line of SQL or Rust has to do with notifications of Postgres.
fn notifies(line: &str) -> bool {
    let line = line.trim().to_lowercase();
    let starts = ["listen ", "notify ", "unlisten "];
    line.contains("pg_notify")
        || line.contains("pglistener")
        // An enum of ours may have a variant of such a name.
        || starts.iter().any(|start| line.starts_with(start)) && !line.ends_with('{')
}

fn search(folder: &Path, found: &mut Vec<String>, seen: &mut usize) {
    for entry in std::fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            search(&path, found, seen);
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        *seen += 1;
        // In .sqlx a query is one line with escaped line ends.
        let lines = text.split(['\n', '"']).flat_map(|line| line.split("\\n"));
        let hits = lines.filter(|line| notifies(line));
        found.extend(hits.map(|line| format!("{}: {line}", path.display())));
    }
}

#[test]
fn no_statement_of_ours_listens_or_notifies() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut seen) = (Vec::new(), 0);
    for folder in [
        "migrations",
        ".sqlx",
        "store/src",
        "actors/src",
        "gateway/src",
    ] {
        search(&workspace.join(folder), &mut found, &mut seen);
    }
    assert!(seen > 150, "only {seen} files were searched");
    assert_eq!(found, [""; 0]);
    assert!(notifies("  NOTIFY jobs, 'x'") && notifies("select pg_notify('jobs', $1)"));
}
