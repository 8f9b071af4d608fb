//! Every promise holds in every state of the bounded scopes.

use fencepost_model::{explore, scopes};

#[test]
fn no_promise_is_broken_anywhere_in_the_bounded_scopes() {
    for (name, scope) in scopes::bounded() {
        let finding = explore(scope, 2);
        println!("{name}: {finding:#?}");
        assert!(finding.broken.is_empty(), "{name}: {finding:#?}");
        assert!(finding.unreached.is_empty(), "{name}: {finding:#?}");
    }
}
