//! Paths of the fields of a TOML document, for errors.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Returns the path of the field at a byte range of a TOML document, such as `profile[0].args.kinds`.
///
/// The range is that of a key or a value, as in a [`toml::de::Error`]. If several fields have this range, the innermost
/// one counts. Without such a field, the path is that of the innermost value that contains the range; it is empty for
/// the document itself.
#[must_use]
pub fn field_path(document: &DeTable<'_>, at: &Range<usize>) -> String {
    // The range of the document, of which a field is missing.
    if *at == (0..0) {
        return String::new();
    }
    let mut search = Search { at, exact: None, around: None };
    search.table(document, &mut String::new());
    let found = search.exact.or(search.around.map(|(_, path)| path));
    found.unwrap_or_default()
}

struct Search<'a> {
    at: &'a Range<usize>,
    exact: Option<String>,
    /// The shortest range so far that contains the searched one, with its path.
    around: Option<(usize, String)>,
}

impl Search<'_> {
    fn table(&mut self, table: &DeTable<'_>, path: &mut String) {
        for (key, value) in table.iter() {
            let parent = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(key.get_ref());
            self.compare(key.span(), path);
            self.value(value, path);
            path.truncate(parent);
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, path: &mut String) {
        self.compare(value.span(), path);
        match value.get_ref() {
            DeValue::Table(table) => self.table(table, path),
            DeValue::Array(list) => {
                for (index, value) in list.iter().enumerate() {
                    let parent = path.len();
                    path.push_str(&format!("[{index}]"));
                    self.value(value, path);
                    path.truncate(parent);
                }
            }
            _ => {}
        }
    }

    fn compare(&mut self, span: Range<usize>, path: &str) {
        if span == *self.at {
            self.exact = Some(path.to_owned());
        } else if span.start <= self.at.start
            && self.at.end <= span.end
            && self.around.as_ref().is_none_or(|(length, _)| span.len() <= *length)
        {
            self.around = Some((span.len(), path.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::field_path;
    use serde::Deserialize;
    use std::collections::BTreeMap;
    use toml::de::DeTable;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(rename = "item")]
        _item: Vec<Item>,
        #[serde(default, rename = "rules")]
        _rules: BTreeMap<String, u8>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Item {
        #[serde(rename = "sizes")]
        _sizes: Vec<u8>,
    }

    fn path(text: &str) -> String {
        let error = toml::from_str::<File>(text).unwrap_err();
        field_path(DeTable::parse(text).unwrap().get_ref(), &error.span().unwrap())
    }

    #[test]
    fn errors_have_the_path_of_their_field() {
        assert_eq!(path("[[item]]\nsizes = []\n[[item]]\nsizes = [1, -2]"), "item[1].sizes[1]");
        assert_eq!(path("[[item]]\nsizes = 7"), "item[0].sizes");
        assert_eq!(path("[[item]]\nsizes = []\n[[item]]\nsize = 7"), "item[1].size");
        assert_eq!(path("[[item]]\nsizes = []\n[[item]]\n"), "item[1]", "a field is missing");
        assert_eq!(path("other = 1"), "other");
        assert_eq!(path(""), "", "a field of the document is missing");
        assert_eq!(path("[rules]\nsize = 1"), "", "a field of the document is missing");
    }
}
