//! Ids in addresses. What is no id names nothing, so the answer is 404, as for an unknown one; it says
//! what an id looks like.

use std::str::FromStr;

use super::problem::{Problem, ProblemCode};

/// What stands in an address, as the id of a `what`.
pub(super) fn path_id<T: FromStr>(what: &str, text: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| {
        let detail = format!(
            "the address holds no id of a {what}: an id looks like \
             019adf00-0000-7000-8000-000000000001"
        );
        Problem::new(ProblemCode::NotFound, detail)
    })
}

#[cfg(test)]
mod tests {
    use fencepost_domain::ids::JobId;

    use super::*;

    #[test]
    fn an_address_holds_an_id_or_hears_what_one_looks_like() {
        let id = "019adf00-0000-7000-8000-000000000001";
        assert_eq!(path_id::<JobId>("job", id).unwrap().to_string(), id);
        for text in ["", "1", "none", "{job}", &id[1..]] {
            let problem = path_id::<JobId>("job", text).unwrap_err();
            assert_eq!(problem.code, ProblemCode::NotFound, "{text}");
            assert!(problem.detail.contains(id), "{text}: {}", problem.detail);
        }
    }
}
