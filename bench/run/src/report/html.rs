//! Text in a page. Names come from untrusted files, so all are escaped.

use super::text::{clean, clip};
use serde::Serialize;

/// Maximum number of characters of a label, which take two lines on a narrow screen.
const LABEL_CHARS_MAX: usize = 64;

/// Escapes text for an element or a quoted attribute.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// Escapes a name, and cuts it to a length for which a label has room. The JSON file has the whole name.
pub(super) fn label(name: &str) -> String {
    escape(&clip(name, LABEL_CHARS_MAX))
}

/// Converts a value to JSON inside a `<script>`. The result contains no `<`, which could end the script: JSON has `<`
/// only in strings, and there it is escaped.
///
/// # Panics
/// Never, if every key in the value is text.
pub(super) fn script_data(value: &impl Serialize) -> String {
    serde_json::to_string(value)
        .expect("the keys are text, and memory takes all that is written")
        .replace('<', "\\u003c")
}

/// A section with a heading. The title is text that is already escaped; the body is markup.
pub(super) fn section(title: &str, body: &str) -> String {
    format!("<section>\n<h2>{title}</h2>\n{body}</section>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_become_markup() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\u{0}"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\u{fffd}"
        );
        let data = script_data(&["</script><!--"]);
        assert!(!data.contains('<'), "{data}");
        let back: Vec<String> = serde_json::from_str(&data).unwrap();
        assert_eq!(back, ["</script><!--"]);
    }
}
