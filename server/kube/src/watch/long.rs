//! Search for the object that a line of a watch is about, if the line is too long to be read completely.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::fmt;

/// Type of an event, and name, namespace and version of its object. A field is empty if it is not near the start of the
/// line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) version: String,
}

/// Reads the head from the start of a line.
pub(super) fn head(start: &[u8]) -> Head {
    let mut head = Head::default();
    let mut reader = serde_json::Deserializer::from_slice(start);
    // The line is cut off, so the parser ends with an error. It has read the fields before the cut by then.
    let _ = Within { head: &mut head, level: Level::Line }.deserialize(&mut reader);
    head
}

#[derive(Clone, Copy)]
enum Level {
    Line,
    Object,
    Metadata,
}

/// Reads the fields of a level into the head.
struct Within<'a> {
    head: &'a mut Head,
    level: Level,
}

impl<'de> DeserializeSeed<'de> for Within<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Within<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let Within { head, level } = self;
        while let Some(field) = fields.next_key::<String>()? {
            let text = match (level, field.as_str()) {
                (Level::Line, "object") => {
                    fields.next_value_seed(Within { head, level: Level::Object })?;
                    continue;
                }
                (Level::Object, "metadata") => {
                    fields.next_value_seed(Within { head, level: Level::Metadata })?;
                    continue;
                }
                (Level::Line, "type") => &mut head.kind,
                (Level::Metadata, "namespace") => &mut head.namespace,
                (Level::Metadata, "name") => &mut head.name,
                (Level::Metadata, "resourceVersion") => &mut head.version,
                _ => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *text = fields.next_value()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_is_read_as_far_as_it_goes() {
        let line = br#"{"type":"MODIFIED","object":{"kind":"Pod","metadata":{"name":"a","namespace":"t","labels":{"x":"y"},
            "resourceVersion":"7","annotations":{"long":"xxxxxxx"#;
        let text = |text: &str| text.to_owned();
        let whole = Head {
            kind: text("MODIFIED"),
            namespace: text("t"),
            name: text("a"),
            version: text("7"),
        };
        assert_eq!(head(line), whole);
        assert_eq!(head(&line[..70]).name, "a");
        assert_eq!(head(&line[..70]).version, "");
        assert_eq!(head(br#"{"type":3,"object":{"metadata":{"name":"a""#), Head::default());
        assert_eq!(head(b"xxxx"), Head::default());
    }
}
