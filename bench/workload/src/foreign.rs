//! Files of other tools that users give by mistake, and what to give instead.

/// The remedy if a file that is neither TOML nor JSON of the right form is recognisably another tool's.
pub(crate) fn remedy(text: &str) -> Option<&'static str> {
    if text.starts_with("#!") || text.contains("\n#SBATCH") {
        return Some(
            "this looks like a script: name it in `command` of a job file, or after `--` of `omega \
             job submit`",
        );
    }
    let first = text.lines().map(str::trim).find(|line| !is_comment(line))?;
    if first.starts_with('{') {
        return of_json(text);
    }
    if first.ends_with('{') && !first.contains(['=', '[']) {
        return Some(
            "this looks like HCL: job files must be TOML or JSON (docs/coming-from.md compares them with Nomad's)",
        );
    }
    is_yaml(first)
        .then_some("this looks like YAML: files of machines, jobs and rules must be TOML or JSON")
}

fn is_comment(line: &str) -> bool {
    line.is_empty() || line.starts_with('#') || line.starts_with("//")
}

/// The remedy for an object in JSON, according to its first field.
fn of_json(text: &str) -> Option<&'static str> {
    let field = text.trim_start().strip_prefix('{')?.trim_start().strip_prefix('"')?;
    let is_of_omega = ["\"id\"", "\"tenant\"", "\"file\""].iter().all(|key| text.contains(key));
    match field.split('"').next()? {
        "name" if is_of_omega => Some(
            "this looks like the output of `omega job get -o json`: take its field `file`, or use `-o toml`",
        ),
        "apiVersion" | "metadata" => Some(
            "this looks like an object of Kubernetes: docs/coming-from.md has Omega's counterparts",
        ),
        "Job" | "ID" => {
            Some("this looks like a job of Nomad: docs/coming-from.md has Omega's counterparts")
        }
        _ => None,
    }
}

/// Whether the first line with content looks like YAML: `---`, `key:` or `key: value`.
fn is_yaml(first: &str) -> bool {
    let key = first.split(':').next().unwrap_or_default();
    let is_key = !key.contains(['=', '"', '\'', '{', '[']) && key.len() < first.len();
    first == "---" || first.starts_with("- ") || is_key
}

#[cfg(test)]
mod tests {
    use super::remedy;

    fn looks_like(text: &str, what: &str) {
        let told = remedy(text).unwrap_or_default();
        assert!(told.starts_with(&format!("this looks like {what}:")), "{text:?}: {told}");
    }

    #[test]
    fn files_of_other_tools_are_recognised() {
        for text in ["---\nname: a", "# a job\n\nname: web\ncount: 3", "job:\n  name: a", "- a"] {
            looks_like(text, "YAML");
        }
        looks_like("# web\njob \"web\" {\n  datacenters = [\"dc1\"]\n}\n", "HCL");
        looks_like("#!/bin/bash\n#SBATCH --ntasks=4\nsrun hostname\n", "a script");
        looks_like("#!/bin/sh\n", "a script");
        looks_like("{\"Job\": {\"ID\": \"web\"}}", "a job of Nomad");
        let printed = r#"{"name": "web", "id": "j0", "tenant": "t", "file": {}}"#;
        looks_like(printed, "the output of `omega job get -o json`");
        looks_like("{\n  \"apiVersion\": \"batch/v1\"}", "an object of Kubernetes");
    }

    #[test]
    fn own_files_are_not_foreign() {
        for text in [
            "name = \"a:b\"",
            "[job]\nname = 1",
            "{\"a\": 1}",
            "\"a:b\" = 1",
            "",
            "name",
            "[{\n\"a\": 1}]",
        ] {
            assert_eq!(remedy(text), None, "{text:?}");
        }
    }
}
